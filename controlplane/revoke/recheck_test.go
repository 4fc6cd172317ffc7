package revoke

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// fickle accepts the token of the harness until it is told not to.
type fickle struct {
	auth
	refuse atomic.Pointer[fault.Error]
	asked  atomic.Int64
	until  time.Time
}

func (f *fickle) Authenticate(ctx context.Context, node, token string) (Node, error) {
	f.asked.Add(1)
	if err := f.refuse.Load(); err != nil {
		return Node{}, err
	}
	n, err := f.auth.Authenticate(ctx, node, token)
	n.Until = f.until
	return n, err
}

// TestRecheck: a link ends when its token is no longer valid. It does not end while the
// check fails or the token is valid.
func TestRecheck(t *testing.T) {
	f := &fickle{}
	virtually(t, func(o *Options) { o.Auth = f }, func(t *testing.T, w *world, _ *scripted) {
		w.pipe("node", contract.Hello{Instance: "i"})
		w.r.Recheck(t.Context())
		f.refuse.Store(fault.New(fault.Denied, "revoked"))
		w.r.Recheck(t.Context(), "another")
		synctest.Wait()
		if n := w.r.Stats().Links; n != 1 {
			t.Fatalf("%d links", n)
		}
		w.r.Recheck(t.Context())
		synctest.Wait()
		if n := w.r.Stats().Links; n != 0 {
			t.Fatal("the link outlives its token")
		}
	})
}

// TestRecheckIsRepeated: while the check of a token fails, it is repeated, less and less
// often, until it succeeds.
func TestRecheckIsRepeated(t *testing.T) {
	for _, counts := range []bool{true, false} {
		f := &fickle{}
		virtually(t, func(o *Options) { o.Auth = f }, func(t *testing.T, w *world, _ *scripted) {
			g, _ := w.pipe("node", contract.Hello{Instance: "i"})
			f.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
			w.r.Recheck(t.Context())
			asked := f.asked.Load()
			for range 20 {
				time.Sleep(time.Second)
				g.lease()
			}
			if n := f.asked.Load() - asked; n < 4 || n > 12 {
				t.Errorf("asked %d times in 20 s", n)
			}
			f.refuse.Store(nil)
			if !counts {
				f.refuse.Store(fault.New(fault.Denied, "revoked"))
			}
			for range 2 * rejudge.Last / time.Second {
				if time.Sleep(time.Second); w.r.Stats().Links > 0 {
					g.lease()
				}
			}
			if n := w.r.Stats().Links; (n == 1) != counts {
				t.Errorf("%d links although the token counts: %v", n, counts)
			}
		})
	}
}

// TestLinkExpires: a link ends with the token that it came with.
func TestLinkExpires(t *testing.T) {
	f := &fickle{}
	virtually(t, func(o *Options) { o.Auth = f }, func(t *testing.T, w *world, _ *scripted) {
		f.until = time.Now().Add(readTimeout / 2)
		w.pipe("node", contract.Hello{Instance: "i"})
		for _, links := range []int{1, 0} {
			if n := w.r.Stats().Links; n != links {
				t.Errorf("%d links, want %d", n, links)
			}
			time.Sleep(readTimeout / 2)
			synctest.Wait()
		}
	})
}
