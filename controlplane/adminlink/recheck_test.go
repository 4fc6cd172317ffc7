package adminlink

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// fickle accepts every token until it is told not to.
type fickle struct{ refuse atomic.Value }

func (f *fickle) Authenticate(context.Context, string, string) (time.Time, error) {
	err, _ := f.refuse.Load().(error)
	return time.Time{}, err
}

// open returns the number of links when all goroutines wait.
func open(s *Server) int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

// TestRecheck: the links whose token is no longer valid end, and no others.
func TestRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := &fickle{}
		s := newServer(t, Options{Auth: auth})
		pipe(t, s, "m.a", time.Time{})
		pipe(t, s, "m.b", time.Time{})
		if n := open(s); n != 2 {
			t.Fatalf("%d links", n)
		}
		auth.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
		s.Recheck(t.Context())
		if n := open(s); n != 2 {
			t.Fatalf("%d links after a failure that says nothing of tokens", n)
		}
		auth.refuse.Store(fault.New(fault.Denied, "revoked"))
		s.Recheck(t.Context(), "m.a")
		if n := open(s); n != 1 || s.links["m.b"] == nil {
			t.Errorf("%d links are left", n)
		}
		s.Recheck(t.Context())
		if n := open(s); n != 0 {
			t.Error("the other link outlives its token")
		}
	})
}

// TestRecheckThatFailedIsTriedUntilItIsJudged: no other event repeats the check of a token
// that was revoked while the store was away.
func TestRecheckThatFailedIsTriedUntilItIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := &fickle{}
		s := newServer(t, Options{Auth: auth})
		pipe(t, s, "m.a", time.Time{})
		synctest.Wait()
		auth.refuse.Store(fault.New(fault.Unavailable, "the store is away"))
		s.Recheck(t.Context(), "m.a")
		time.Sleep(time.Minute)
		if n := open(s); n != 1 {
			t.Fatal("ended by a failure that says nothing of the token")
		}
		auth.refuse.Store(fault.New(fault.Denied, "revoked"))
		time.Sleep(rejudge.Last)
		if n := open(s); n != 0 {
			t.Error("the link outlives its token")
		}
	})
}
