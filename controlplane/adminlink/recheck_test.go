package adminlink

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// fickle accepts every token until it is told not to.
type fickle struct{ refuse atomic.Value }

func (f *fickle) Authenticate(context.Context, string, string) (time.Time, error) {
	err, _ := f.refuse.Load().(error)
	return time.Time{}, err
}

// TestRecheck ends the links whose token no longer counts, and no others.
func TestRecheck(t *testing.T) {
	auth := &fickle{}
	w := newWorld(t, Options{Auth: auth})
	ended := map[string]chan struct{}{"m.a": make(chan struct{}), "m.b": make(chan struct{})}
	for node, done := range ended {
		w.hostile(t, node, func(rw io.ReadWriter) {
			_, _ = read(rw)
			close(done)
		})
	}
	for deadline := time.Now().Add(10 * time.Second); w.open() < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	auth.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
	w.Recheck(t.Context())
	if n := w.open(); n != 2 {
		t.Fatalf("%d links after a failure that says nothing of tokens", n)
	}
	auth.refuse.Store(fault.New(fault.Denied, "revoked"))
	w.Recheck(t.Context(), "m.a")
	select {
	case <-ended["m.a"]:
	case <-time.After(10 * time.Second):
		t.Fatal("the link outlives its token")
	}
	select {
	case <-ended["m.b"]:
		t.Error("the link of another node ended")
	default:
	}
	w.Recheck(t.Context())
	select {
	case <-ended["m.b"]:
	case <-time.After(10 * time.Second):
		t.Fatal("the other link outlives its token")
	}
}

// TestRecheckThatFailedIsTriedUntilItIsJudged: nobody asks a second time about a
// token that was revoked while the store was away.
func TestRecheckThatFailedIsTriedUntilItIsJudged(t *testing.T) {
	auth := &fickle{}
	w := newWorld(t, Options{Auth: auth})
	begun, ended := make(chan struct{}), make(chan struct{})
	w.hostile(t, "m.a", func(rw io.ReadWriter) {
		close(begun)
		_, _ = read(rw)
		close(ended)
	})
	late := time.After(10 * time.Second)
	select {
	case <-begun:
	case <-late:
		t.Fatal("the link does not open")
	}
	for w.open() < 1 {
		select {
		case <-late:
			t.Fatal("the link is not registered")
		case <-time.After(time.Millisecond):
		}
	}
	auth.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
	w.Recheck(t.Context(), "m.a")
	auth.refuse.Store(fault.New(fault.Denied, "revoked"))
	select {
	case <-ended:
	case <-late:
		t.Fatal("the link outlives its token")
	}
}

func (w *world) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.links)
}
