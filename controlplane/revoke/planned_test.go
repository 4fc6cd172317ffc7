package revoke

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestWelcomeWaitsForThePlan: a filter that is welcomed by a new control plane starts anew
// and asks about every token. Before the node is planned, that control plane has no
// answers, and the filter would refuse tokens that Redis vouched for.
func TestWelcomeWaitsForThePlan(t *testing.T) {
	planned := make(chan struct{})
	tweak := func(o *Options) {
		o.Planned = func(ctx context.Context, n Node) {
			select {
			case <-planned:
			case <-ctx.Done():
				t.Errorf("the plan of %s was not waited for", n.ID)
			}
		}
	}
	virtually(t, tweak, func(t *testing.T, w *world, _ *scripted) {
		planned = make(chan struct{}) // a channel of this bubble
		f := w.dial("a")
		welcomed := async(func() error {
			f.hello(contract.Hello{Instance: "one"})
			return nil
		})
		stillWaits(t, "the welcome", welcomed)
		time.Sleep(planLimit / 2)
		stillWaits(t, "the welcome", welcomed)
		close(planned)
		if err := <-welcomed; err != nil {
			t.Fatal(err)
		}
		f.lease()
	})
}

// TestWelcomeWithoutAPlan: a node that cannot be planned gets revocations all the same.
// Right after the start this takes a little longer, but it ends before the leases of a
// predecessor, until which no revocation is confirmed.
func TestWelcomeWithoutAPlan(t *testing.T) {
	tweak := func(o *Options) {
		o.Planned = func(ctx context.Context, _ Node) { <-ctx.Done() }
	}
	for runs, limit := range map[time.Duration]time.Duration{
		0: contract.Lease - planMargin, time.Second: contract.Lease - planMargin - time.Second,
		2 * time.Second: planLimit, contract.Lease - planMargin - time.Millisecond: planLimit,
		contract.Lease: planLimit, time.Hour: planLimit,
	} {
		virtually(t, tweak, func(t *testing.T, w *world, _ *scripted) {
			w.begun(time.Now().Add(-runs))
			begun := time.Now()
			f, _ := w.pipe("a", contract.Hello{Instance: "one"})
			if d := time.Since(begun); d != limit {
				t.Errorf("welcomed after %v instead of %v by one that runs for %v", d, limit, runs)
			}
			f.lease()
			synctest.Wait()
		})
	}
}

// TestWelcomeOutlivesALongReplay: while the first replay lasts, however long, filters are
// welcomed without trust in Redis, and filters that retry do not take all places.
func TestWelcomeOutlivesALongReplay(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		f, _ := w.pipe("a", contract.Hello{Instance: "one"})
		f.cut()
		w.close(w.r) // in good order
		redis.be(waiting)
		w.open(nil)
		w.begun(time.Now())
		synctest.Wait()
		begun := time.Now()
		f = w.dial("a")
		_ = f.conn.SetDeadline(begun.Add(contract.Lease)) // a filter gives up then
		wel := f.hello(contract.Hello{Instance: "one"})
		_ = f.conn.SetDeadline(time.Time{})
		if d := time.Since(begun); d != contract.Lease-planMargin || wel.Trust.Epoch != 0 {
			t.Errorf("welcomed after %v with %+v", d, wel.Trust)
		}
		f.lease()
		for i := range w.r.o.MaxNodeLinks - 1 {
			hello, _ := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: fmt.Sprint("other ", i)})
			given := w.dial("a")
			given.send(contract.FrameHello, hello)
			given.cut()
		}
		time.Sleep(planLimit)
		synctest.Wait()
		w.r.mu.Lock()
		if n := len(w.r.joining); n != 0 {
			t.Errorf("%d links that were given up have places", n)
		}
		w.r.mu.Unlock()
		redis.be(fine)
		redis.open()
		if m := f.trusted(); m.Trust.Epoch == 0 {
			t.Errorf("told %+v when Redis is in order", m)
		}
	})
}
