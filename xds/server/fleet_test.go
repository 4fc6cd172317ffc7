package server_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// roll answers for all tokens with a verdict that the test sets.
type roll struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

func (a *roll) Known(context.Context, string) error { return nil }

func (a *roll) Authenticate(context.Context, string, string) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.until, a.err
}

func (a *roll) set(until time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until, a.err = until, err
}

func ends(t *testing.T, c *xdstest.Client, code codes.Code) {
	t.Helper()
	c.WaitFor(t, "the end", func(v xdstest.View) bool { return v.Err() != nil && status.Code(v.Err()) == code })
}

func TestRecheckEndsWhatIsRevoked(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code codes.Code
	}{
		"revoked":   {server.ErrUnauthenticated, codes.Unauthenticated},
		"forbidden": {server.ErrForbidden, codes.PermissionDenied},
		"unknown":   {server.ErrUnknownNode, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			a := &roll{}
			r := setup(t, func(c *server.Config) { c.Auth = a })
			c := started(t, r, xdstest.Options{Token: "x"})
			a.set(time.Time{}, errors.New("the store is away"))
			r.srv.Recheck(t.Context())
			r.settle(t, r.publish(world()...)) // a transient failure ends no stream
			a.set(time.Time{}, tc.err)
			r.srv.Recheck(t.Context())
			ends(t, c, tc.code)
		})
	}
}

func TestTrapNodeWithTooManyStreamsLosesItsOldest(t *testing.T) {
	r := setup(t, func(c *server.Config) { c.Limits.NodeStreams = 2 })
	oldest := started(t, r, xdstest.Options{})
	second := started(t, r, xdstest.Options{})
	started(t, r, xdstest.Options{})
	ends(t, oldest, codes.ResourceExhausted)
	second.See(func(v xdstest.View) {
		if v.Err() != nil {
			t.Fatal(v.Err())
		}
	})
}

func TestConfirmedIsToldOncePerReading(t *testing.T) {
	got := make(chan snapshot.State, 16)
	r := setup(t, func(c *server.Config) {
		c.Confirmed = func(_ string, st snapshot.State) { got <- st }
	})
	started(t, r, xdstest.Options{})
	rev := r.publish(append(world(), xdstest.Cluster("late", 0))...)
	r.settle(t, rev)
	deadline := time.After(patience)
	for last := uint64(0); last < rev; {
		select {
		case st := <-got:
			if st.Version <= last {
				t.Fatalf("version %d came after %d", st.Version, last)
			}
			last = st.Version
		case <-deadline:
			t.Fatal("the confirmation was not told")
		}
	}
}
