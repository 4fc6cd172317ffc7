package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	alice = "00000000-0000-4000-8000-00000000000a"
	bob   = "00000000-0000-4000-8000-00000000000b"
)

// rig is a store with its views.
type rig struct {
	t     *testing.T
	ctx   context.Context
	store store.Store
	scope *view.Scope[*view.Gateway]
	wake  chan struct{}
	sub   *view.Subscription[*view.Gateway]
}

func open(t *testing.T, s store.Store) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	views := view.New(s, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		cancel()
		views.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	scope, err := views.ControlPlane(ctx, model.DefaultControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	wake := make(chan struct{}, 1)
	return &rig{t, ctx, s, scope, wake, scope.Subscribe(wake)}
}

func update(t *testing.T, s store.Store, fn func(store.Tx) error) uint64 {
	t.Helper()
	c, err := s.Update(context.Background(), model.Config, fn)
	if err != nil {
		t.Fatal(err)
	}
	return c.Revision
}

func put(k *model.Kind, name string, spec any) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
		if _, err := tx.Get(k, r.Scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	}
}

func remove(k *model.Kind, name string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.Delete(k, model.DefaultControlPlane, name, 0) }
}

// await takes changes until the state shows a revision, and merges them.
func (r *rig) await(revision uint64) view.Change[*view.Gateway] {
	r.t.Helper()
	var merged view.Change[*view.Gateway]
	for {
		c := r.sub.Take()
		merged.State = c.State
		merged.Keys = append(merged.Keys, c.Keys...)
		merged.All = merged.All || c.All
		if c.State.Revision() >= revision {
			return merged
		}
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			r.t.Fatalf("revision %d did not arrive, the view is at %d", revision, c.State.Revision())
		}
	}
}

func (r *rig) write(fn func(store.Tx) error) view.Change[*view.Gateway] {
	r.t.Helper()
	return r.await(update(r.t, r.store, fn))
}

func service() *gateway.Service {
	return &gateway.Service{Protocol: "http", Host: "up.test", Port: 80, Enabled: true}
}

func plugin(anonymous string) *gateway.Plugin {
	config, err := json.Marshal(gateway.OAuth2Config{Anonymous: anonymous})
	if err != nil {
		panic(err)
	}
	return &gateway.Plugin{Name: gateway.PluginOAuth2, Config: config, Enabled: true}
}

func TestFollowsWrites(t *testing.T) {
	s := memstore.New()
	update(t, s, put(gateway.Services, alice, service()))
	r := open(t, s)
	if _, ok := r.scope.State().Service(alice); !ok {
		t.Fatal("the first load misses a service")
	}
	if c := r.sub.Take(); !c.All {
		t.Error("a subscription does not start with everything")
	}
	before := r.scope.State()
	c := r.write(put(gateway.Routes, bob, &gateway.Route{Paths: []string{"/a"}, Protocols: []string{"http"}, Service: alice}))
	if len(c.Keys) != 1 || c.Keys[0].Name != bob || c.All {
		t.Errorf("change set is %+v, want the route alone", c)
	}
	if _, ok := before.Route(bob); ok {
		t.Error("an older state changed")
	}
	if x, _ := before.Service(alice); x == nil || x != first(c.State.Service(alice)) {
		t.Error("an untouched service is not shared")
	}
	c = r.write(remove(gateway.Routes, bob))
	if _, ok := c.State.Route(bob); ok {
		t.Error("a deleted route is still there")
	}
}

func first[A, B any](a A, _ B) A { return a }

func TestOtherScopesMoveTheRevisionOnly(t *testing.T) {
	r := open(t, memstore.New())
	r.sub.Take()
	c := r.write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: "other", Name: alice, Spec: service()})
		return err
	})
	if len(c.Keys) != 0 || c.All {
		t.Errorf("a write to another control plane is a change here: %+v", c)
	}
}

func TestAnonymousConsumer(t *testing.T) {
	steps := []struct {
		name string
		do   func(store.Tx) error
		// want is the id that each configured value resolves to.
		guest, id string
		changed   bool
	}{
		{"unknown", put(gateway.Plugins, "p1", plugin("guest")), "", "", true},
		{"created", put(gateway.Consumers, alice, &gateway.Consumer{Username: "guest"}), alice, "", true},
		{"other consumer", put(gateway.Consumers, bob, &gateway.Consumer{Username: "bob"}), alice, "", false},
		{"renamed away", without("guest", put(gateway.Consumers, alice, &gateway.Consumer{Username: "alice"})), "", "", true},
		{"another takes the name", put(gateway.Consumers, bob, &gateway.Consumer{Username: "guest"}), bob, "", true},
		{"by id", put(gateway.Plugins, "p1", plugin(alice)), "", alice, true},
		{"a change of what it answers", put(gateway.Consumers, alice, &gateway.Consumer{Username: "x"}), "", alice, true},
		{"no longer of interest", put(gateway.Consumers, bob, &gateway.Consumer{Username: "y"}), "", alice, false},
		{"deleted", without(alice, remove(gateway.Consumers, alice)), "", "", true},
		{"no plugin", remove(gateway.Plugins, "p1"), "", "", true},
		{"nobody asks", put(gateway.Consumers, alice, &gateway.Consumer{Username: "z"}), "", "", false},
	}
	r := open(t, memstore.New())
	r.sub.Take()
	for _, step := range steps {
		c := r.write(step.do)
		for value, want := range map[string]string{"guest": step.guest, alice: step.id} {
			got := ""
			if found := c.State.Of(model.DefaultControlPlane).Anonymous(value); found != nil {
				got = found.ID
			}
			if got != want {
				t.Errorf("%s: %q answers to %q, want %q", step.name, got, value, want)
			}
		}
		if (len(c.Keys) > 0) != step.changed {
			t.Errorf("%s: changed keys %v", step.name, c.Keys)
		}
	}
}

// without does what the store refuses while a plugin names the consumer: it takes
// the plugin away for that long.
func without(anonymous string, do func(store.Tx) error) func(store.Tx) error {
	return func(tx store.Tx) error {
		for _, step := range []func(store.Tx) error{remove(gateway.Plugins, "p1"), do, put(gateway.Plugins, "p1", plugin(anonymous))} {
			if err := step(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAttachedHidesDisabledPlugins(t *testing.T) {
	r := open(t, memstore.New())
	target := gateway.Attachment{Name: gateway.PluginOAuth2}
	if c := r.write(put(gateway.Plugins, "p1", plugin(""))); first(c.State.Of(model.DefaultControlPlane).Attached(target)) == nil {
		t.Error("an enabled plugin is not found")
	}
	p := plugin("")
	p.Enabled = false
	if _, ok := r.write(put(gateway.Plugins, "p1", p)).State.Of(model.DefaultControlPlane).Attached(target); ok {
		t.Error("a disabled plugin is found")
	}
	moved := plugin("")
	r.write(put(gateway.Services, alice, service()))
	moved.Service = alice
	c := r.write(put(gateway.Plugins, "p1", moved))
	if _, ok := c.State.Of(model.DefaultControlPlane).Attached(target); ok {
		t.Error("a moved plugin is still at its old target")
	}
	target.Service = alice
	if _, ok := c.State.Of(model.DefaultControlPlane).Attached(target); !ok {
		t.Error("a moved plugin is not at its new target")
	}
}

// TestStatesAreWholeRevisions writes pairs in one commit and never sees half.
func TestStatesAreWholeRevisions(t *testing.T) {
	s := memstore.New()
	r := open(t, s)
	const commits = 200
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range commits {
			_, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
				one, two := service(), service()
				one.Port, two.Port = i+1, i+1
				if err := put(gateway.Services, alice, one)(tx); err != nil {
					return err
				}
				return put(gateway.Services, bob, two)(tx)
			})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for port := 0; port < commits; {
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			t.Fatal("the last commit did not arrive")
		}
		g := r.sub.Take().State
		a, b := first(g.Service(alice)), first(g.Service(bob))
		if (a == nil) != (b == nil) || (a != nil && a.Spec.Port != b.Spec.Port) {
			t.Fatalf("revision %d shows half a commit: %+v %+v", g.Revision(), a, b)
		}
		if a != nil {
			port = a.Spec.Port
		}
	}
	<-done
}

// forgetful is a store whose history is lost once.
type forgetful struct {
	store.Store
	lost chan struct{}
}

func (f *forgetful) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	return func(yield func([]store.Event, error) bool) {
		select {
		case <-f.lost:
			f.Store.Watch(ctx, after)(yield)
		default:
			close(f.lost)
			// What happened in between is in no feed.
			_, err := f.Update(ctx, model.Config, put(gateway.Services, alice, service()))
			if err != nil {
				panic(fmt.Sprintf("write: %v", err))
			}
			yield(nil, &store.HistoryLost{Oldest: 99})
		}
	}
}

func TestLostHistoryIsLoadedAnew(t *testing.T) {
	f := &forgetful{lost: make(chan struct{})}
	f.Store = memstore.New()
	r := open(t, f)
	c := r.await(1)
	if _, ok := c.State.Service(alice); !ok {
		t.Error("what happened while history was lost is missing")
	}
	c = r.write(put(gateway.Services, bob, service()))
	if _, ok := c.State.Service(bob); !ok {
		t.Error("the feed does not go on")
	}
}

// stalled is a store whose events arrive only once the gate is open.
type stalled struct {
	store.Store
	gate chan struct{}
}

func (s *stalled) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	return func(yield func([]store.Event, error) bool) {
		select {
		case <-s.gate:
			s.Store.Watch(ctx, after)(yield)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// TestMoreEventsThanAreKept writes more at once than the feed remembers: the view
// is loaded anew and goes on.
func TestMoreEventsThanAreKept(t *testing.T) {
	const commits, each = 180, 100 // 18,000 events, 16,384 are kept
	s := &stalled{Store: memstore.New(), gate: make(chan struct{})}
	r := open(t, s)
	var last uint64
	for i := range commits {
		last = update(t, s, func(tx store.Tx) error {
			for j := range each {
				if err := put(gateway.Services, fmt.Sprintf("00000000-0000-4000-8000-%012d", i*each+j), service())(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	close(s.gate)
	c := r.await(last)
	if _, ok := c.State.Service("00000000-0000-4000-8000-000000017999"); !ok || !c.All {
		t.Error("the view does not show what was written, or does not say that all may differ")
	}
	if _, ok := r.write(put(gateway.Services, bob, service())).State.Service(bob); !ok {
		t.Error("the feed does not go on")
	}
}

// TestPanicInAViewIsItsFailure: a resource that cannot be indexed stops its scope,
// which says so, and nothing else.
func TestPanicInAViewIsItsFailure(t *testing.T) {
	s := &panicking{Store: memstore.New()}
	r := open(t, s)
	s.on.Store(true)
	rev := update(t, s, put(gateway.Services, alice, service()))
	for r.scope.Err() == nil {
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			t.Fatal("the scope does not say that it failed")
		}
	}
	s.on.Store(false)
	r.await(rev)
	if err := r.scope.Err(); err != nil {
		t.Errorf("the scope still says %v", err)
	}
}

// panicking is a store whose readers panic.
type panicking struct {
	store.Store
	on atomic.Bool
}

func (p *panicking) View(ctx context.Context, fn func(store.Reader) error) error {
	return p.Store.View(ctx, func(r store.Reader) error {
		if p.on.Load() {
			panic("this row is unexpected")
		}
		return fn(r)
	})
}
