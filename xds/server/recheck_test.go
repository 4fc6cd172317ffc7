package server_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A recheck that failed in the control plane is made up for later: the token was revoked, and
// nobody else asks again.
func TestRecheckThatFailedIsTriedUntilItIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &roll{}
		r := setup(t, func(c *server.Config) { c.Auth = a })
		c := started(t, r, xdstest.Options{Token: "x"})
		a.set(time.Time{}, errors.New("the store is away"))
		r.srv.Recheck(t.Context(), nodeID)
		<-time.After(time.Minute) // fake time
		c.See(func(v xdstest.View) {
			if v.Err() != nil {
				t.Errorf("ended by a failure that says nothing of the token: %v", v.Err())
			}
		})
		a.set(time.Time{}, server.ErrUnauthenticated)
		ends(t, c, codes.Unauthenticated)
	})
}

// dated answers one question late. The answer tells the state at the time of the question: the
// token was valid.
type dated struct {
	roll
	answer atomic.Pointer[chan struct{}]
}

func (d *dated) Authenticate(ctx context.Context, node, token string) (time.Time, error) {
	if answer := d.answer.Swap(nil); answer != nil {
		<-*answer
		return time.Time{}, nil
	}
	return d.roll.Authenticate(ctx, node, token)
}

// A token is revoked while an older question about it is still open. The server asks again,
// although the answer to the older question is that the token is valid.
func TestRecheckThatFailedIsNotSettledByAnOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, answer := &dated{}, make(chan struct{})
		r := setup(t, func(c *server.Config) { c.Auth = a })
		c := started(t, r, xdstest.Options{Token: "x"})
		a.set(time.Time{}, errors.New("the store is away"))
		r.srv.Recheck(t.Context(), nodeID)
		a.answer.Store(&answer)
		<-time.After(time.Second) // fake time; the question was asked again by now
		r.srv.Recheck(t.Context(), nodeID)
		close(answer)
		synctest.Wait()
		a.set(time.Time{}, server.ErrUnauthenticated)
		ends(t, c, codes.Unauthenticated)
	})
}

// slow lets the test decide when a node is connected.
type slow struct{ entered, gate chan struct{} }

func (s slow) Connect(ctx context.Context, _ string, _ bool) (func(), error) {
	s.entered <- struct{}{}
	select {
	case <-s.gate:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A stream whose token is judged invalid during its admission gets nothing: no set, and no
// place among the streams of the node.
func TestRecheckDuringTheAdmission(t *testing.T) {
	for name, open := range variants {
		t.Run(name, func(t *testing.T) {
			a, n := &roll{}, slow{make(chan struct{}), make(chan struct{})}
			connected := make(chan server.Event, 1)
			r := setup(t, func(c *server.Config) { c.Auth, c.Nodes, c.Observer = a, n, arrivals{come: connected} })
			r.publish(world()...)
			recv, err := open(bearing(t.Context(), "x"), r.conn, nodeID)
			if err != nil {
				t.Fatal(err)
			}
			within(t, "the connection", n.entered)
			a.set(time.Time{}, server.ErrForbidden)
			r.srv.Recheck(t.Context(), nodeID)
			close(n.gate)
			if got, err := recv(); status.Code(err) != codes.PermissionDenied {
				t.Fatalf("the stream got %v and %v", got, err)
			}
			select {
			case e := <-connected:
				t.Errorf("%s counts as connected", e.Node)
			default:
			}
			if p := r.snaps.Progress(r.rev); len(p.Waiting)+len(p.Acknowledged) != 0 {
				t.Errorf("it is waited for: %+v", p)
			}
		})
	}
}

// arrivals reports the beginnings of streams.
type arrivals struct {
	server.Nobody
	come chan server.Event
}

func (a arrivals) Connected(e server.Event) { a.come <- e }
