package server_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// within receives a value and fails the test if none arrives in time.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}

// ask is a request for one secret; the test answers it once.
type ask struct {
	ctx  context.Context
	name string
	give chan *resource.Resource
}

// gated lets the test make each secret. A deaf one ignores its context.
type gated struct {
	asks chan ask
	end  chan struct{}
	deaf bool
}

func newGated(t *testing.T, deaf bool) *gated {
	g := &gated{asks: make(chan ask, 64), end: make(chan struct{}), deaf: deaf}
	t.Cleanup(func() { close(g.end) })
	return g
}

func (g *gated) Secret(ctx context.Context, _, name, _ string) (*resource.Resource, error) {
	a := ask{ctx, name, make(chan *resource.Resource, 1)}
	over := ctx.Done()
	if g.deaf {
		over = nil
	}
	select {
	case g.asks <- a:
	case <-over: // one that was asked too often while nobody looked
		return nil, ctx.Err()
	case <-g.end:
		return nil, errors.New("the test is over")
	}
	select {
	case r := <-a.give:
		if r == nil {
			return nil, errors.New("the authority is away")
		}
		return r, nil
	case <-over:
		return nil, ctx.Err()
	case <-g.end:
		return nil, errors.New("the test is over")
	}
}

func (g *gated) next(t *testing.T) ask {
	t.Helper()
	return within(t, "the request for a secret", g.asks)
}

// secrets returns a rig whose node may ask for a secret, and a function that publishes its
// next generation.
func secrets(t *testing.T, g *gated, change func(*server.Config)) (r *rig, turn func(generation string, rs ...*resource.Resource)) {
	r = setup(t, func(c *server.Config) {
		c.Secrets = g
		if change != nil {
			change(c)
		}
	})
	return r, func(generation string, rs ...*resource.Resource) {
		r.rev++
		r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(rs, map[string]string{"identity": generation})}, r.rev)
	}
}

func TestSecretOfAnotherGenerationIsMadeAnew(t *testing.T) {
	g := newGated(t, true)
	r, turn := secrets(t, g, nil)
	first, stale, second := identity(t, 1), identity(t, 2), identity(t, 3)
	turn("a")
	c := r.dial(t, xdstest.Options{Relay: true})
	g.next(t).give <- first
	c.Request(resource.Secret).Equals(t, first)
	r.settle(t, 1)

	turn("b")
	b := g.next(t)
	turn("c") // a deaf maker is still at work for b
	within(t, "the end of the context for b", b.ctx.Done())
	next := g.next(t) // does not wait for the maker of b
	b.give <- stale
	turn("c", routesA)
	c.Request(resource.Route).Equals(t, routesA)
	c.Request(resource.Secret).Equals(t, first)
	if p := r.snaps.Progress(r.rev); len(p.Waiting) != 1 {
		t.Fatalf("confirmed without the new identity: %+v", p)
	}
	next.give <- second
	c.Request(resource.Secret).Equals(t, second)
	r.settle(t, r.rev)
	secretsSeen := 0
	for _, m := range c.Messages() {
		if m.Type == resource.Secret && len(m.Names) > 0 {
			secretsSeen++
		}
	}
	if secretsSeen != 2 {
		t.Fatalf("%d secrets were sent, want the first and the last", secretsSeen)
	}
}

// lines receives the log lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestNewGenerationDoesNotWaitForThePauseOfTheOld(t *testing.T) {
	g := newGated(t, false)
	failed := make(lines, 4)
	r, turn := secrets(t, g, func(c *server.Config) {
		c.Limits.SecretRetry, c.Log = time.Hour, slog.New(slog.NewTextHandler(failed, nil))
	})
	turn("a")
	c := r.dial(t, xdstest.Options{Relay: true})
	g.next(t).give <- nil
	within(t, "the failure", failed)
	turn("b")
	want := identity(t, 1)
	g.next(t).give <- want
	c.Request(resource.Secret).Equals(t, want)
	r.settle(t, r.rev)
}

func TestHangingSecretHoldsUpNothingElse(t *testing.T) {
	for name, deaf := range map[string]bool{"heeds its context": false, "is deaf": true} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, deaf)
			gone := make(observer, 4)
			r := setup(t, func(c *server.Config) { c.Secrets, c.Observer = g, gone })
			publish := func(rev uint64, rs ...*resource.Resource) {
				set := resource.NewSet(rs, map[string]string{"hanging": "", "identity": ""})
				r.snaps.Publish(map[string]*resource.Set{nodeID: set, "other": set}, rev)
			}
			publish(1, world()...)
			c := r.dial(t, xdstest.Options{Relay: true})
			hanging, id := g.next(t), g.next(t)
			if hanging.name != "hanging" {
				hanging, id = id, hanging
			}
			one := identity(t, 1)
			id.give <- one
			c.Request(resource.Secret).Equals(t, one)
			publish(2, clusterA, endA, listener, routesB)
			c.Request(resource.Route).Equals(t, routesB)
			if p := r.snaps.Progress(2); len(p.Waiting) != 1 {
				t.Fatalf("confirmed without a secret: %+v", p)
			}
			c.Close()
			within(t, "the end of the maker's context", hanging.ctx.Done())
			// The node no longer delays the revision, even if its maker never returns.
			r.settle(t, 2)
			if deaf {
				hanging.give <- nil
			}
			within(t, "the end of the stream", gone)
		})
	}
}

// observer reports ended streams.
type observer chan server.Event

func (observer) Connected(server.Event)        {}
func (observer) Sent(server.Event)             {}
func (observer) Acknowledged(server.Event)     {}
func (observer) Rejected(server.Event)         {}
func (observer) Refused(server.Event)          {}
func (o observer) Disconnected(e server.Event) { o <- e }

func TestSecretThatTakesTooLongIsAskedForAgain(t *testing.T) {
	g := newGated(t, false)
	r, turn := secrets(t, g, func(c *server.Config) {
		c.Limits.SecretTimeout, c.Limits.SecretRetry = time.Millisecond, time.Millisecond
	})
	turn("a")
	r.dial(t, xdstest.Options{Relay: true})
	within(t, "the end of the context", g.next(t).ctx.Done())
	g.next(t)
}

func TestPushDuringAChangeOfGeneration(t *testing.T) {
	g := newGated(t, false)
	r, turn := secrets(t, g, nil)
	first, pushed, second, third := identity(t, 1), identity(t, 2), identity(t, 3), identity(t, 4)
	turn("a")
	c := r.dial(t, xdstest.Options{Relay: true})
	g.next(t).give <- first
	c.Request(resource.Secret).Equals(t, first)
	turn("b")
	b := g.next(t)
	// A push for the generation in force renews it but does not confirm the new one.
	r.srv.PushSecret(nodeID, "a", pushed)
	c.Request(resource.Secret).Equals(t, pushed)
	turn("b", routesA)
	c.Request(resource.Route).Equals(t, routesA)
	if p := r.snaps.Progress(r.rev); len(p.Waiting) != 1 {
		t.Fatalf("a push confirmed the generation: %+v", p)
	}
	b.give <- second
	c.Request(resource.Secret).Equals(t, second)
	r.settle(t, r.rev)
	r.srv.PushSecret(nodeID, "b", third)
	c.Request(resource.Secret).Equals(t, third)
	select {
	case a := <-g.asks:
		t.Fatalf("%s was asked for again", a.name)
	default:
	}
}

// A renewal may begin before the tags change and arrive afterwards. Its certificate is for the
// older tags and must not replace the newer one.
func TestPushOfAnOlderGenerationIsNotTaken(t *testing.T) {
	g := newGated(t, false)
	r, turn := secrets(t, g, nil)
	first, old, second, renewed := identity(t, 1), identity(t, 2), identity(t, 3), identity(t, 4)
	turn("a")
	c := r.dial(t, xdstest.Options{Relay: true})
	g.next(t).give <- first
	c.Request(resource.Secret).Equals(t, first)
	turn("b")
	g.next(t).give <- second
	c.Request(resource.Secret).Equals(t, second)
	r.srv.PushSecret(nodeID, "a", old)
	turn("b", routesA)
	c.Request(resource.Route).Equals(t, routesA)
	c.Request(resource.Secret).Equals(t, second)
	r.srv.PushSecret(nodeID, "b", renewed)
	c.Request(resource.Secret).Equals(t, renewed)
	for _, m := range c.Messages() {
		if m.Type == resource.Secret && len(m.Removed) > 0 {
			t.Errorf("removed: %v", m.Removed)
		}
	}
}

// A push for the generation that the set wants ends the wait for a secret that is still being
// made, because the pushed one is newer.
func TestPushOfTheWantedGenerationIsTaken(t *testing.T) {
	g := newGated(t, false)
	r, turn := secrets(t, g, nil)
	first, pushed, late := identity(t, 1), identity(t, 2), identity(t, 3)
	turn("a")
	c := r.dial(t, xdstest.Options{Relay: true})
	g.next(t).give <- first
	c.Request(resource.Secret).Equals(t, first)
	turn("b")
	b := g.next(t)
	r.srv.PushSecret(nodeID, "b", pushed)
	c.Request(resource.Secret).Equals(t, pushed)
	r.settle(t, r.rev)
	b.give <- late
	turn("b", routesA)
	c.Request(resource.Route).Equals(t, routesA)
	c.Request(resource.Secret).Equals(t, pushed)
}

// TestPushWhileTheFirstIsMade: a secret, such as a new bundle of roots, is pushed only once. A
// secret whose making began earlier must not take its place.
func TestPushWhileTheFirstIsMade(t *testing.T) {
	for name, started := range map[string]bool{"it is being made": false, "it could not be made": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGated(t, false)
				r, turn := secrets(t, g, func(c *server.Config) { c.Limits.SecretRetry = time.Hour })
				older, newer := identity(t, 1), identity(t, 2)
				turn("a")
				c := r.dial(t, xdstest.Options{Relay: true})
				making := g.next(t)
				if started {
					making.give <- nil
					synctest.Wait()
				}
				r.srv.PushSecret(nodeID, "another", identity(t, 3))
				r.srv.PushSecret(nodeID, "a", newer)
				c.Request(resource.Secret).Equals(t, newer)
				if !started {
					making.give <- older
					synctest.Wait()
				}
				c.Request(resource.Secret).Equals(t, newer)
				r.settle(t, r.rev)
			})
		})
	}
}
