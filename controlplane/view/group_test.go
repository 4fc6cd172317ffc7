package view_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// group is a store with the view of a group.
type group struct {
	*rig
}

func openGroup(t *testing.T, s store.Store) *group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	views := view.NewResolved(s, scopestest.Resolver{}, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		cancel()
		views.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	scope, err := views.ControlPlane(ctx, "all")
	if err != nil {
		t.Fatal(err)
	}
	wake := make(chan struct{}, 1)
	return &group{&rig{t, ctx, s, scope, wake, scope.Subscribe(wake)}}
}

func putIn(scope string, k *model.Kind, name string, spec any) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Created: time.Unix(1, 0), Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	}
}

func join(members ...string) func(store.Tx) error {
	return func(tx store.Tx) error { return scopestest.Set(tx, "all", members...) }
}

func named(name string) *gateway.Service {
	s := service()
	s.Name = name
	return s
}

// clash waits until the view says why it stands still.
func (g *group) clash() scopes.Conflict {
	g.t.Helper()
	for {
		if c, ok := scopes.ConflictIn(g.scope.Err()); ok {
			return c
		}
		select {
		case <-g.wake:
		case <-g.ctx.Done():
			g.t.Fatalf("no conflict was found: %v", g.scope.Err())
		}
	}
}

// TestGroupFollowsItsMembers joins and leaves, and has members clash.
func TestGroupFollowsItsMembers(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a"))
	update(t, s, putIn("b", gateway.Services, bob, named("two")))
	g := openGroup(t, s)
	g.write(putIn("a", gateway.Services, alice, named("one")))
	if _, ok := g.scope.State().Service(bob); ok {
		t.Error("the view holds a service of a control plane that is no member")
	}
	if c := g.write(join("a", "b")); !c.All {
		t.Error("a control plane has joined, and subscribers are not told to read everything")
	}
	for _, id := range []string{alice, bob} {
		if _, ok := g.scope.State().Service(id); !ok {
			t.Errorf("service %s of a member is missing", id)
		}
	}
	// The feed goes by the members of now.
	g.write(putIn("b", gateway.Services, bob, named("changed")))
	if b, _ := g.scope.State().Service(bob); b.Spec.Name != "changed" {
		t.Errorf("the write of the new member was not followed: %+v", b.Spec)
	}
	good := g.scope.State()
	update(t, s, putIn("b", gateway.Services, bob, named("one")))
	c := g.clash()
	want := scopes.Conflict{
		Kind: gateway.Services, Index: "name", Value: "one",
		Holders: [2]model.Key{{Kind: "service", Scope: "a", Name: alice}, {Kind: "service", Scope: "b", Name: bob}},
	}
	if c != want {
		t.Errorf("conflict %+v, want %+v", c, want)
	}
	if g.scope.State() != good {
		t.Error("a conflict took the last good state away")
	}
	g.write(putIn("a", gateway.Services, alice, named("other")))
	if err := g.scope.Err(); err != nil {
		t.Errorf("a member gave way, and the view says %v", err)
	}
	g.write(join("b"))
	if _, ok := g.scope.State().Service(alice); ok {
		t.Error("the view holds a service of a member that left")
	}
}

// TestSameConsumersClash shows that consumers, which a view does not hold, count too.
func TestSameConsumersClash(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("a", gateway.Consumers, alice, &gateway.Consumer{Username: "eve"}))
	g := openGroup(t, s)
	update(t, s, putIn("b", gateway.Consumers, bob, &gateway.Consumer{Username: "eve"}))
	if c := g.clash(); c.Kind != gateway.Consumers || c.Index != gateway.IndexUsername {
		t.Errorf("conflict %+v", c)
	}
	g.write(join("a"))
}

// TestFollowedGroupIsTheGroupReadAnew writes at random to members, and has them join,
// leave and clash. Whatever happens, the view shows what reading everything shows, or
// what it showed before while that finds a conflict.
func TestFollowedGroupIsTheGroupReadAnew(t *testing.T) {
	kinds := append(gateway.Kinds(), scopestest.Groups)
	stores := map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New() },
		"sqlite": func(t *testing.T) store.Store {
			sealer, err := seal.New(make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(t.TempDir(), "db"), Kinds: kinds, Sealer: sealer, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	for name, make := range stores {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				followAtRandom(t, make(t), rand.New(rand.NewPCG(seed, 1)))
			}
		})
	}
}

func followAtRandom(t *testing.T, s store.Store, random *rand.Rand) {
	update(t, s, join("a"))
	g := openGroup(t, s)
	last, clashes := printed(g.scope.State()), 0
	for step := range 150 {
		revision := randomWrite(t, s, random)
		var want string
		err := s.View(context.Background(), func(r store.Reader) error {
			src, err := scopestest.Resolver{}.Resolve(r, "all")
			if err != nil {
				return err
			}
			anew, err := view.LoadSource("all", src)
			if err == nil {
				want = printed(anew)
			}
			return err
		})
		if _, clash := scopes.ConflictIn(err); clash {
			clashes++
			g.clash()
			if got := printed(g.scope.State()); got != last {
				t.Fatalf("step %d: in a conflict the view shows\n%s\nwant the last good\n%s", step, got, last)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		g.await(revision)
		if last = printed(g.scope.State()); last != want {
			t.Fatalf("step %d: the view shows\n%s\nread anew\n%s", step, last, want)
		}
		if err := g.scope.Err(); err != nil {
			t.Fatalf("step %d: the view says %v", step, err)
		}
	}
	if clashes == 0 || clashes > 140 {
		t.Errorf("%d of 150 steps were conflicts: the test shows little", clashes)
	}
}

// randomWrite commits one or two changes that cannot be refused.
func randomWrite(t *testing.T, s store.Store, random *rand.Rand) uint64 {
	members := []string{"a", "b", "c"}
	return update(t, s, func(tx store.Tx) error {
		for range 1 + random.IntN(2) {
			scope, n := members[random.IntN(3)], random.IntN(12)
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n+100*(int(scope[0])-'a')*min(1, random.IntN(8)))
			var err error
			switch random.IntN(8) {
			case 0:
				err = scopestest.Set(tx, "all", members[:1+random.IntN(3)]...)
			case 1, 2:
				err = tx.Delete(gateway.Services, scope, id, 0)
			case 3:
				err = putIn(scope, gateway.Consumers, id, &gateway.Consumer{Username: scope + fmt.Sprint(random.IntN(40)/39*n)})(tx)
			case 4:
				err = tx.Delete(gateway.Consumers, scope, id, 0)
			case 5:
				err = putIn(scope, gateway.Plugins, id, plugin(scope+"0"))(tx)
			case 6:
				err = tx.Delete(gateway.Plugins, scope, id, 0)
			default:
				name := fmt.Sprint(scope, n)
				if random.IntN(12) == 0 {
					name = "shared"
				}
				err = putIn(scope, gateway.Services, id, named(name))(tx)
			}
			if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unique) && !fault.Is(err, fault.Referenced) {
				return err
			}
		}
		return scopestest.Set(tx, "clock", fmt.Sprint(random.Uint64())) // so that each commit has a revision
	})
}

// printed is what a view shows, but for its revision.
func printed(g *view.Gateway) string {
	out := entries("service", g.Services(), func(s *view.Service) string { return fmt.Sprint(s.ID, s.Version, *s.Spec) })
	out += entries("plugin", g.Plugins(), func(p *view.Plugin) string { return fmt.Sprint(p.ID, p.Version, p.Spec.Name, p.Anonymous) })
	for _, name := range []string{"a0", "b0", "c0"} {
		if c := g.Anonymous(name); c != nil {
			out += fmt.Sprintln("anonymous", name, c.ID, c.Version)
		}
	}
	return out
}

func entries[T any](what string, list iter.Seq[T], text func(T) string) (out string) {
	var lines []string
	for e := range list {
		lines = append(lines, text(e))
	}
	slices.SortFunc(lines, cmp.Compare)
	return out + fmt.Sprintln(what, lines)
}

// TestScopeThatIsItselfCostsNothing compares reads through a source with reads of the store.
func TestScopeThatIsItselfCostsNothing(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	update(t, s, putIn("a", gateway.Services, alice, named("one")))
	_ = s.View(context.Background(), func(r store.Reader) error {
		bare := testing.AllocsPerRun(100, func() { _, _ = r.Get(gateway.Services, "a", alice) })
		var resolver scopes.Resolver = scopes.Each{}
		through := testing.AllocsPerRun(100, func() {
			src, _ := resolver.Resolve(r, "a")
			_, _ = src.Get(gateway.Services, alice)
		})
		if through > bare {
			t.Errorf("%v allocations through a source, %v without", through, bare)
		}
		return nil
	})
}

// counted tells how often a scope is resolved.
type counted struct {
	scopestest.Resolver
	asked chan struct{}
}

// Resolve implements scopes.Resolver.
func (c counted) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	c.asked <- struct{}{}
	return c.Resolver.Resolve(r, scope)
}

// TestGroupThatClashesFromTheStart is read once, and once more when a commit has mended it.
// What is no member's wakes nobody.
func TestGroupThatClashesFromTheStart(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("a", gateway.Services, alice, named("one")))
	update(t, s, putIn("b", gateway.Services, bob, named("one")))
	asked := make(chan struct{}, 10)
	views := view.NewResolved(s, counted{asked: asked}, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		views.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		_, err := views.AwaitControlPlane(ctx, "all")
		opened <- err
	}()
	<-asked
	update(t, s, putIn("c", gateway.Services, alice, named("one")))
	update(t, s, func(tx store.Tx) error { return scopestest.Set(tx, "others", "c") })
	update(t, s, putIn("b", gateway.Services, bob, named("two")))
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if n := 1 + len(asked); n != 2 {
		t.Errorf("it was read %d times", n)
	}
}
