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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
		return putOf(1, scope, k, name, spec)(tx)
	}
}

// putOf is putIn of what was created at a second.
func putOf(created int64, scope string, k *model.Kind, name string, spec any) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Created: time.Unix(created, 0), Spec: spec}
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
	g.write(join("b"))
	if _, ok := g.scope.State().Service(alice); ok {
		t.Error("the view holds a service of a member that left")
	}
}

func sni(name string) *gateway.SNI { return &gateway.SNI{Name: name, Certificate: "none"} }

// TestClashConcernsWhatClashes has a member make what another one has. The younger one is
// left out and named, and everything else goes on, without anything being read anew.
func TestClashConcernsWhatClashes(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("a", gateway.Services, alice, named("one")))
	g := openGroup(t, s)
	g.sub.Take()
	write := func(fn func(store.Tx) error) *view.Gateway {
		t.Helper()
		c := g.write(fn)
		if err := g.scope.Err(); err != nil || c.All {
			t.Fatalf("the view says %v; was everything read: %t", err, c.All)
		}
		return c.State
	}
	left := scopes.Clash{
		Left: model.Key{Kind: "service", Scope: "b", Name: alice}, Rival: model.Key{Kind: "service", Scope: "a", Name: alice}, Value: alice,
	}
	state := write(putOf(2, "b", gateway.Services, alice, named("stolen")))
	if got := state.LeftOut(); len(got) != 1 || got[0] != left {
		t.Errorf("left out are %+v, want %+v", got, left)
	}
	state = write(putIn("a", gateway.Services, alice, named("changed")))
	if one, ok := state.Service(alice); !ok || one.Scope != "a" || one.Spec.Name != "changed" {
		t.Errorf("a change of the older one is not in force: %+v", one)
	}
	if _, ok := write(putIn("b", gateway.Services, bob, named("changed"))).Service(bob); !ok {
		t.Error("what clashes with nothing is not in force")
	}
	state = write(func(tx store.Tx) error { return tx.Delete(gateway.Services, "a", alice, 0) })
	if one, ok := state.Service(alice); !ok || one.Scope != "b" || len(state.LeftOut()) != 0 {
		t.Errorf("the older one is gone, and the view has %+v and leaves out %+v", one, state.LeftOut())
	}
}

// TestOneMemberHasAServerName shows that what clients ask for is one member's, whatever
// the ids are, and that names which only members themselves use are everybody's.
func TestOneMemberHasAServerName(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	for _, member := range []string{"a", "b"} {
		update(t, s, putIn(member, gateway.Certificates, "none", &gateway.Certificate{}))
	}
	update(t, s, func(tx store.Tx) error {
		if err := putIn("b", gateway.SNIs, bob, sni("x.test"))(tx); err != nil {
			return err
		}
		return putIn("a", gateway.SNIs, alice, sni("x.test"))(tx)
	})
	g := openGroup(t, s)
	// Made at once: still one was made first.
	if got := g.scope.State().LeftOut(); len(got) != 2 || got[1].Left.Scope != "a" || got[1].Rival.Name != bob || got[1].Value != "x.test" {
		t.Errorf("left out are %+v", got)
	}
	c := g.write(putIn("b", gateway.SNIs, bob, sni("y.test")))
	if n := len(c.State.LeftOut()); n != 1 || len(slices.Collect(c.State.SNIs())) != 2 {
		t.Errorf("%d are left out although the names differ", n)
	}
}

// eachStore runs a test on a store in memory and on one in a file.
func eachStore(t *testing.T, test func(t *testing.T, open func(*testing.T) store.Store)) {
	kinds := append(gateway.Kinds(), scopestest.Groups)
	for name, open := range map[string]func(*testing.T) store.Store{
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
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// TestNobodyIsOlderThanTheStoreSays has a member that says of everything that it made it
// before the other one did: by what it creates, by what it writes again, and by an older
// entity of its own that takes the name of the other one's.
func TestNobodyIsOlderThanTheStoreSays(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) store.Store) {
		s := open(t)
		update(t, s, join("a", "b"))
		for _, member := range []string{"a", "b"} {
			update(t, s, putIn(member, gateway.Certificates, member, &gateway.Certificate{}))
		}
		const squatter, guest = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
		name := func(member, host string) *gateway.SNI { return &gateway.SNI{Name: host, Certificate: member} }
		update(t, s, putOf(9, "b", gateway.SNIs, squatter, name("b", "old.test")))
		update(t, s, putOf(9, "b", gateway.Consumers, guest, &gateway.Consumer{Username: "old"}))
		update(t, s, putOf(9, "a", gateway.Services, alice, named("one")))
		update(t, s, putOf(9, "a", gateway.SNIs, alice, name("a", "x.test")))
		update(t, s, putOf(9, "a", gateway.Consumers, alice, &gateway.Consumer{Username: "guest"}))
		g := openGroup(t, s)
		for _, w := range []func(store.Tx) error{
			putOf(1, "b", gateway.Services, alice, named("stolen")),
			putOf(1, "b", gateway.Services, alice, named("stolen again")),
			putOf(1, "b", gateway.SNIs, bob, name("b", "y.test")),
			putOf(1, "b", gateway.SNIs, squatter, name("b", "x.test")),
			putOf(1, "b", gateway.SNIs, squatter, name("b", "x.test")),
			putOf(1, "b", gateway.Consumers, guest, &gateway.Consumer{Username: "guest"}),
		} {
			g.write(w)
			for _, c := range g.scope.State().LeftOut() {
				if c.Left.Scope == "a" {
					t.Errorf("b is before a: %v", c)
				}
			}
		}
		state := g.scope.State()
		if n := len(state.LeftOut()); n != 3 {
			t.Errorf("left out are %v", state.LeftOut())
		}
		if one, ok := state.Service(alice); !ok || one.Scope != "a" {
			t.Errorf("the service is %+v", one)
		}
		// Who deletes what it has, and makes it again, was not there first.
		g.write(func(tx store.Tx) error { return tx.Delete(gateway.Services, "a", alice, 0) })
		g.write(putOf(1, "a", gateway.Services, alice, named("one")))
		if one, ok := g.scope.State().Service(alice); !ok || one.Scope != "b" {
			t.Errorf("made again, the service is %+v", one)
		}
	})
}

// TestWhoHadTheIDIsFirstByTheID has two consumers that share both: each is left out by what
// the other one had first.
func TestWhoHadTheIDIsFirstByTheID(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("a", gateway.Consumers, alice, &gateway.Consumer{Username: "one"}))
	update(t, s, putIn("b", gateway.Consumers, alice, &gateway.Consumer{Username: "two"}))
	g := openGroup(t, s)
	left := g.write(putIn("a", gateway.Consumers, alice, &gateway.Consumer{Username: "two"})).State.LeftOut()
	if len(left) != 2 || left[0].Index != gateway.IndexUsername || left[1].Index != "" || left[1].Left.Scope != "b" {
		t.Errorf("left out are %v", left)
	}
}

// TestGroupComparesConsumersItFinds: consumers clash whether a view was there or is opened
// afterwards, and where nothing is a group nothing is compared.
func TestGroupComparesConsumersItFinds(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("b", gateway.Consumers, bob, &gateway.Consumer{Username: "guest"}))
	update(t, s, putIn("a", gateway.Consumers, alice, &gateway.Consumer{Username: "guest"}))
	left := openGroup(t, s).scope.State().LeftOut()
	want := scopes.Clash{
		Left:  model.Key{Kind: "consumer", Scope: "a", Name: alice},
		Rival: model.Key{Kind: "consumer", Scope: "b", Name: bob}, Index: gateway.IndexUsername, Value: "guest",
	}
	if !slices.Equal(left, []scopes.Clash{want}) {
		t.Errorf("left out are %v, want %v", left, want)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		alone, err := view.Load("a", r)
		if err == nil && len(alone.LeftOut()) != 0 {
			t.Errorf("a control plane leaves out %v of its own", alone.LeftOut())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsNamedIsOnesOwn has b offer what resources of a name and a does not have.
func TestWhatIsNamedIsOnesOwn(t *testing.T) {
	s := memstore.New()
	update(t, s, join("a", "b"))
	update(t, s, putIn("a", gateway.Plugins, "p", plugin("guest")))
	g := openGroup(t, s)
	in := func(state *view.Gateway, scope string) []any {
		m := state.Of(scope)
		u, _ := m.Upstream("Orders.internal")
		p, _ := m.Attached(gateway.Attachment{Name: "request-termination"})
		return []any{u != nil, p != nil, m.Anonymous("guest") != nil}
	}
	var state *view.Gateway
	for _, w := range []func(store.Tx) error{
		putIn("b", gateway.Consumers, bob, &gateway.Consumer{Username: "guest"}),
		putIn("b", gateway.Upstreams, bob, &gateway.Upstream{Name: "orders.internal"}),
		putIn("b", gateway.Plugins, "q", &gateway.Plugin{Name: "request-termination", Enabled: true, Config: []byte(`{"anonymous":"guest"}`)}),
	} {
		state = g.write(w).State
	}
	if got := in(state, "a"); !slices.Equal(got, []any{false, false, false}) {
		t.Errorf("a has an upstream, a plugin and a guest: %v; all are of b", got)
	}
	if got := in(state, "b"); !slices.Equal(got, []any{true, true, true}) {
		t.Errorf("b has an upstream, a plugin and a guest: %v; all are its own", got)
	}
	state = g.write(putIn("a", gateway.Consumers, alice, &gateway.Consumer{Username: "guest"})).State
	// Upstreams are told of consumers by name, so only the first guest counts.
	if c := state.Of("b").Anonymous("guest"); c == nil || c.ID != bob {
		t.Errorf("the guest of b is %+v", c)
	}
	state = g.write(putIn("a", gateway.Plugins, "r", &gateway.Plugin{Name: "request-termination", Enabled: true, Config: []byte(`{"anonymous":"guest"}`)})).State
	if c := state.Of("a").Anonymous("guest"); c != nil || len(state.LeftOut()) != 1 {
		t.Errorf("the guest of a is %+v, left out are %+v", c, state.LeftOut())
	}
	g.write(func(tx store.Tx) error { return tx.Delete(gateway.Plugins, "b", "q", 0) })
	state = g.write(func(tx store.Tx) error { return tx.Delete(gateway.Consumers, "b", bob, 0) }).State
	if c := state.Of("a").Anonymous("guest"); c == nil || c.ID != alice || len(state.LeftOut()) != 0 {
		t.Errorf("once the first one gave way, the guest of a is %+v, left out are %+v", c, state.LeftOut())
	}
}

// TestFollowedGroupIsTheGroupReadAnew writes at random to members, and has them join,
// leave and clash. Whatever happens, the view shows what reading everything shows, and
// leaves out what the rule says.
func TestFollowedGroupIsTheGroupReadAnew(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(*testing.T) store.Store) {
		for seed := range uint64(4) {
			followAtRandom(t, open(t), rand.New(rand.NewPCG(seed, 1)))
		}
	})
}

func followAtRandom(t *testing.T, s store.Store, random *rand.Rand) {
	update(t, s, join("a"))
	g := openGroup(t, s)
	clashes := 0
	for step := range 150 {
		revision := randomWrite(t, s, random)
		var want string
		var left []scopes.Clash
		if err := s.View(context.Background(), func(r store.Reader) error {
			src, err := scopestest.Resolver{}.Resolve(r, "all")
			if err != nil {
				return err
			}
			if left, err = leftOut(r, src.Scopes()); err != nil {
				return err
			}
			anew, err := view.LoadSource("all", src)
			if err == nil {
				want = printed(anew)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		clashes += min(1, len(left))
		g.await(revision)
		state := g.scope.State()
		if got := printed(state); got != want {
			t.Fatalf("step %d: the view shows\n%s\nread anew\n%s", step, got, want)
		}
		if got := state.LeftOut(); !slices.Equal(got, left) {
			t.Fatalf("step %d: left out are\n%v\nby the rule\n%v", step, got, left)
		}
		shownAreNotLeftOut(t, state, left)
		if err := g.scope.Err(); err != nil {
			t.Fatalf("step %d: the view says %v", step, err)
		}
	}
	if clashes == 0 || clashes == 150 {
		t.Errorf("%d of 150 steps had clashes: the test shows little", clashes)
	}
}

// leftOut compares each resource with each: it is left out if another member had its id
// first or, of those that clients or upstreams go by, its name.
func leftOut(r store.Reader, members []string) (out []scopes.Clash, err error) {
	for _, k := range []*model.Kind{gateway.Services, gateway.Plugins, gateway.Consumers} {
		var all []*model.Resource
		for _, scope := range members {
			list, err := r.List(k, store.Query{Scope: scope})
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		for _, res := range all {
			c := scopes.Clash{Left: res.Key(), Value: res.Name}
			first := firstOf(all, res, "", func(o *model.Resource) bool { return o.Name == res.Name })
			if first == res && k == gateway.Consumers {
				c.Index, c.Value = gateway.IndexUsername, res.Spec.(*gateway.Consumer).Username
				first = firstOf(all, res, c.Index, func(o *model.Resource) bool { return o.Spec.(*gateway.Consumer).Username == c.Value })
			}
			if c.Rival = first.Key(); first != res {
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b scopes.Clash) int {
		return cmp.Or(cmp.Compare(a.Left.Kind, b.Left.Kind), cmp.Compare(a.Left.Name, b.Left.Name), cmp.Compare(a.Left.Scope, b.Left.Scope))
	})
	return out, nil
}

// firstOf is the one of those that are alike that was so first: res itself, or one of
// another member.
func firstOf(all []*model.Resource, res *model.Resource, index string, alike func(*model.Resource) bool) *model.Resource {
	first := res
	for _, o := range all {
		if alike(o) && cmp.Or(cmp.Compare(o.Since(index), first.Since(index)), cmp.Compare(o.Scope, first.Scope)) < 0 {
			first = o
		}
	}
	return first
}

func shownAreNotLeftOut(t *testing.T, state *view.Gateway, left []scopes.Clash) {
	t.Helper()
	for _, c := range left {
		if s, ok := state.Service(c.Left.Name); ok && c.Left.Kind == "service" && s.Scope == c.Left.Scope {
			t.Fatalf("the view shows %+v, which is left out", s)
		}
		if p, ok := state.Plugin(c.Left.Name); ok && c.Left.Kind == "plugin" && p.Scope == c.Left.Scope {
			t.Fatalf("the view shows %+v, which is left out", p)
		}
	}
}

// randomWrite commits one or two changes that cannot be refused.
func randomWrite(t *testing.T, s store.Store, random *rand.Rand) uint64 {
	members := []string{"a", "b", "c"}
	return update(t, s, func(tx store.Tx) error {
		for range 1 + random.IntN(2) {
			scope, n := members[random.IntN(3)], random.IntN(12)
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n+100*(int(scope[0])-'a')*min(1, random.IntN(3)))
			at := 1 + random.Int64N(4)
			var err error
			switch random.IntN(8) {
			case 0:
				err = scopestest.Set(tx, "all", members[:1+random.IntN(3)]...)
			case 1, 2:
				err = tx.Delete(gateway.Services, scope, id, 0)
			case 3:
				err = putOf(at, scope, gateway.Consumers, id, &gateway.Consumer{Username: []string{scope, scope, "x"}[random.IntN(3)] + fmt.Sprint(random.IntN(3)*n)})(tx)
			case 4:
				err = tx.Delete(gateway.Consumers, scope, id, 0)
			case 5:
				err = putOf(at, scope, gateway.Plugins, id, plugin(scope+"0"))(tx)
			case 6:
				err = tx.Delete(gateway.Plugins, scope, id, 0)
			default:
				name := fmt.Sprint(scope, n)
				if random.IntN(12) == 0 {
					name = "shared"
				}
				err = putOf(at, scope, gateway.Services, id, named(name))(tx)
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
	out := entries("service", g.Services(), func(s *view.Service) string { return fmt.Sprint(s.Scope, s.ID, s.Version, *s.Spec) })
	out += entries("plugin", g.Plugins(), func(p *view.Plugin) string { return fmt.Sprint(p.Scope, p.ID, p.Version, p.Spec.Name, p.Anonymous) })
	for _, name := range []string{"a0", "b0", "c0"} {
		if c := g.Of(name[:1]).Anonymous(name); c != nil {
			out += fmt.Sprintln("anonymous", name, c.Scope, c.ID, c.Version)
		}
		if p, ok := g.Of(name[:1]).Attached(gateway.Attachment{Name: gateway.PluginOAuth2}); ok {
			out += fmt.Sprintln("attached", name[:1], p.ID, p.Version, p.LeftOut)
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
