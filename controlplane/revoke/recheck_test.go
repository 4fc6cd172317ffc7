package revoke

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// fickle accepts the token of the harness until it is told not to.
type fickle struct {
	auth
	refuse atomic.Pointer[fault.Error]
	until  time.Time
}

func (f *fickle) Authenticate(ctx context.Context, node, token string) (Node, error) {
	if err := f.refuse.Load(); err != nil {
		return Node{}, err
	}
	n, err := f.auth.Authenticate(ctx, node, token)
	n.Until = f.until
	return n, err
}

// linksEnd waits until no link is left.
func (w *world) linksEnd(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.r.Stats().Links > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the link outlives its token")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRecheck: a link ends when its token no longer counts, not when nobody can
// tell, and not while it counts.
func TestRecheck(t *testing.T) {
	w := newWorld(t, nil)
	f := &fickle{}
	w.r.o.Auth = f
	w.connect("i")
	w.r.Recheck(t.Context())
	f.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
	w.r.Recheck(t.Context())
	f.refuse.Store(fault.New(fault.Denied, "revoked"))
	w.r.Recheck(t.Context(), "another")
	if n := w.r.Stats().Links; n != 1 {
		t.Fatalf("%d links", n)
	}
	w.r.Recheck(t.Context())
	w.linksEnd(t)
}

// TestLinkExpires: a link does not outlive the token that it came with.
func TestLinkExpires(t *testing.T) {
	w := newWorld(t, nil)
	w.r.o.Auth = &fickle{until: time.Now().Add(time.Second)}
	w.connect("i")
	w.linksEnd(t)
}
