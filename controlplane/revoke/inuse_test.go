package revoke

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// lostRecords issues as many tokens as a batch may hold, whose records Redis has lost
// when a new epoch is vouched for.
func lostRecords(t *testing.T, w *world, redis *scripted) (batch []byte, records func() int) {
	t.Helper()
	var hashes []contract.Hash
	for i := range contract.MaxInUse {
		value := fmt.Sprint("t", i)
		w.mint(value, false)
		hashes = append(hashes, contract.HashToken([]byte(value)))
	}
	redis.restore(map[string][]byte{})
	w.settles(t)
	return (&contract.InUse{Number: 7, Tokens: hashes}).Encode(), func() (n int) {
		for _, h := range hashes {
			if redis.get(contract.RedisRecordKey(h)) != nil {
				n++
			}
		}
		return n
	}
}

// A filter says once what it holds. The answer comes when Redis has it, whatever
// keeps it from being written at first, and not before.
func TestInUseIsAnsweredWhenItIsWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		hinder, mend func(w *world, redis *scripted)
	}{
		"redis is away": {
			func(_ *world, redis *scripted) { redis.be(gone); time.Sleep(2 * watchEvery) },
			func(_ *world, redis *scripted) { redis.be(fine) },
		},
		"redis goes away under it": {
			func(_ *world, redis *scripted) { redis.be(frozen) },
			func(_ *world, redis *scripted) { redis.be(fine) },
		},
		"redis is full": {
			func(_ *world, redis *scripted) { redis.be(full) },
			func(_ *world, redis *scripted) { redis.be(fine) },
		},
		"the store is slow": {
			func(w *world, _ *scripted) {
				w.source.be(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			},
			func(w *world, _ *scripted) { w.source.be(nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(o *Options) {
				o.ChecksTokens = func(Node) bool { return true }
			}, func(t *testing.T, w *world, redis *scripted) {
				batch, records := lostRecords(t, w, redis)
				f, _ := w.pipe("gateway", contract.Hello{Instance: "i"})
				tt.hinder(w, redis)
				f.send(contract.FrameInUse, batch)
				answered := make(chan int, 1)
				go func() {
					for {
						kind, _, err := contract.ReadFrame(f.in)
						switch {
						case err != nil:
							return
						case kind == contract.FrameRefilled:
							answered <- records()
						}
					}
				}()
				// within lets time pass for a filter that keeps its lease.
				within := func(d time.Duration) (records int, ok bool) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						f.send(contract.FrameRenew, contract.EncodeNumber(1))
						select {
						case records = <-answered:
							return records, true
						case <-time.After(contract.RenewEvery):
						}
					}
					return 0, false
				}
				if n, ok := within(10 * time.Second); ok {
					t.Fatalf("answered with %d records written", n)
				}
				tt.mend(w, redis)
				if n, ok := within(10 * time.Second); !ok || n != contract.MaxInUse {
					t.Errorf("answered: %v, with %d records of %d", ok, n, contract.MaxInUse)
				}
			})
		})
	}
}

// What cannot be read, be it mended or not, holds up nothing else.
func TestInUseLeavesOutWhatCannotBeRead(t *testing.T) {
	virtually(t, func(o *Options) {
		o.ChecksTokens = func(Node) bool { return true }
	}, func(t *testing.T, w *world, redis *scripted) {
		batch, records := lostRecords(t, w, redis)
		f, _ := w.pipe("gateway", contract.Hello{Instance: "i"})
		bad := 0
		w.source.be(func(context.Context) error {
			if bad++; bad == 1 {
				return errors.New("the row is damaged")
			}
			return nil
		})
		f.send(contract.FrameInUse, batch)
		f.expect(contract.FrameRefilled)
		if n := records(); n != contract.MaxInUse-1 {
			t.Errorf("%d records", n)
		}
		if n := w.r.Stats().RefillsDropped; n != 1 {
			t.Errorf("%d were dropped", n)
		}
	})
}

// What a filter holds may come before its node is planned: that is no reason to
// forget it.
func TestInUseWaitsForThePlan(t *testing.T) {
	planned := false
	var plan chan struct{}
	virtually(t, func(o *Options) {
		o.ChecksTokens = func(Node) bool { return planned }
		o.Planned = func(ctx context.Context, _ Node) {
			if plan == nil {
				plan = make(chan struct{})
			}
			select {
			case <-plan:
			case <-ctx.Done():
			}
		}
	}, func(t *testing.T, w *world, redis *scripted) {
		batch, records := lostRecords(t, w, redis)
		f, _ := w.pipe("sidecar", contract.Hello{Instance: "i"})
		f.send(contract.FrameInUse, batch)
		synctest.Wait()
		if n := records(); n != 0 {
			t.Fatalf("%d records for a node that may not ask", n)
		}
		planned = true
		close(plan)
		f.expect(contract.FrameRefilled)
		if n := records(); n != contract.MaxInUse {
			t.Errorf("answered with %d records", n)
		}
	})
}
