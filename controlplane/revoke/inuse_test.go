package revoke

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// lostRecords issues as many tokens as a batch may hold, and makes Redis lose their records
// under a new epoch.
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
			if redis.get(contract.RedisRecordKey(scope, h)) != nil {
				n++
			}
		}
		return n
	}
}

// A filter reports once which tokens it holds. It gets the answer when Redis holds their
// records and not before, whatever prevents the write at first.
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
				// within lets time pass while the filter keeps its lease.
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

// damagedRow is a source with one row that cannot be decoded.
type damagedRow struct {
	Source
	of contract.Hash
}

// Record implements [Source].
func (d *damagedRow) Record(ctx context.Context, scope string, hash contract.Hash) (*contract.Record, contract.Answer, uint64, error) {
	if hash == d.of {
		return nil, contract.Unknown, 0, fault.Wrap(fault.Internal, fmt.Errorf("token: %w", store.ErrUnreadable), "the store failed")
	}
	return d.Source.Record(ctx, scope, hash)
}

// A row that cannot be read does not hold up other records.
func TestInUseLeavesOutWhatCannotBeRead(t *testing.T) {
	bad := &damagedRow{of: contract.HashToken([]byte("t7"))}
	virtually(t, func(o *Options) {
		o.ChecksTokens = func(Node) bool { return true }
		bad.Source = o.Source
		o.Source = bad
	}, func(t *testing.T, w *world, redis *scripted) {
		batch, records := lostRecords(t, w, redis)
		before := w.r.Stats().RefillsDropped
		f, _ := w.pipe("gateway", contract.Hello{Instance: "i"})
		f.send(contract.FrameInUse, batch)
		f.expect(contract.FrameRefilled)
		if n := records(); n != contract.MaxInUse-1 {
			t.Errorf("%d records", n)
		}
		if n := w.r.Stats().RefillsDropped - before; n != 1 {
			t.Errorf("%d were dropped", n)
		}
		if n := w.owed(); n != 0 {
			t.Errorf("%d are owed", n)
		}
	})
}

// owed returns the number of records that are owed.
func (w *world) owed() int {
	w.r.keeper.mu.Lock()
	defer w.r.keeper.mu.Unlock()
	return len(w.r.keeper.owed)
}

// A failure of the store says nothing about a record: the record is written when the store
// works again. Nothing else waits for that.
func TestInUseOutlivesAnErrorOfTheStore(t *testing.T) {
	virtually(t, func(o *Options) {
		o.ChecksTokens = func(Node) bool { return true }
	}, func(t *testing.T, w *world, redis *scripted) {
		batch, records := lostRecords(t, w, redis)
		f, _ := w.pipe("gateway", contract.Hello{Instance: "i"})
		reads := 0
		w.source.be(func(context.Context) error { reads++; return errors.New("disk I/O error") })
		f.send(contract.FrameInUse, batch)
		f.expect(contract.FrameRefilled)
		time.Sleep(time.Minute)
		if n := records(); n != 0 {
			t.Fatalf("%d records of a store that fails", n)
		}
		if limit := 64 * contract.MaxInUse; reads > limit {
			t.Errorf("the store was read %d times in a minute", reads)
		}
		w.source.be(nil)
		w.mint("new", false)
		time.Sleep(2 * inUseRetry)
		if n := records(); n != contract.MaxInUse || redis.entry(t, "new").Record == nil {
			t.Errorf("%d records, new %+v", n, redis.entry(t, "new"))
		}
		if n := w.r.Stats().RefillsDropped; n != 0 || w.owed() != 0 {
			t.Errorf("%d were dropped, %d are owed", n, w.owed())
		}
	})
}

// A filter may report its tokens before its node is planned. They must not be forgotten.
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
