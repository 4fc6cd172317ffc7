package selection

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// everyPlace is chosen for every sort of place, all that match. The last by name is the best.
var everyPlace = &policy.Policy{
	Kind: &model.Kind{Name: "test"}, Attachment: policy.All,
	Order: func(a, b *view.Policy) int { return cmp.Compare(b.Name, a.Name) },
}

// TestAllAgainstOracle compares what is chosen where all that match are chosen with a look at
// each policy. Some policies have targets, and these say which proxies they are for.
func TestAllAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld.Draw(t, "world")
		for _, p := range w {
			if rapid.Bool().Draw(t, "targeted") {
				p.Targets = rapid.SliceOfN(drawSelector, 1, 2).Draw(t, "targets")
			}
		}
		sets := rapid.SliceOfN(drawTags, 1, 3).Draw(t, "sets")
		service := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "service")
		matches := func(selectors, sets []mesh.Tags) bool { return len(scored(selectors, sets)) > 0 }
		for name, c := range map[string]struct {
			got  []*view.Policy
			want func(*view.Policy) bool
		}{
			"inbound": {OnInbound(nil, w, everyPlace, sets[0]), func(p *view.Policy) bool {
				if p.Targets == nil {
					return matches(p.Destinations, sets[:1])
				}
				return matches(p.Targets, sets[:1]) && (len(p.Sources) > 0 || len(p.Destinations) == 0)
			}},
			"outbound": {OnConnection(nil, w, everyPlace, policy.AtOutbound, sets, service), func(p *view.Policy) bool {
				to := matches(p.Destinations, []mesh.Tags{svc(service)})
				if p.Targets == nil {
					return to && matches(p.Sources, sets)
				}
				return to && matches(p.Targets, sets) && len(p.Destinations) > 0
			}},
			"proxy": {OnProxy(nil, w, everyPlace, sets), func(p *view.Policy) bool {
				if p.Targets == nil {
					return matches(p.Destinations, sets)
				}
				return matches(p.Targets, sets)
			}},
		} {
			var want []*view.Policy
			for _, p := range w {
				if c.want(p) {
					want = append(want, p)
				}
			}
			slices.Reverse(want)
			if !slices.Equal(c.got, want) {
				t.Fatalf("%s: chose %v, want %v", name, c.got, want)
			}
		}
	})
}

// TestPlaces: a policy is chosen only where its attachments say, one or all.
func TestPlaces(t *testing.T) {
	w := world{named("a", 1, nil, nil), named("b", 1, nil, nil)}
	sets := []mesh.Tags{svc("web")}
	for bit := policy.ByInbound; bit <= policy.AllByProxy; bit <<= 1 {
		p := &policy.Policy{Kind: testPolicy.Kind, Attachment: bit}
		for at, got := range map[policy.Attachment][]*view.Policy{
			policy.AtInbound: OnInbound(nil, w, p, sets[0]), policy.AtProxy: OnProxy(nil, w, p, sets),
			policy.AtOutbound:    OnConnection(nil, w, p, policy.AtOutbound, sets, "x"),
			policy.AtDestination: OnConnection(nil, w, p, policy.AtDestination, sets, "x"),
		} {
			want := 0
			if bit.Has(at) {
				if want = 1; bit.Has(policy.All) {
					want = 2
				}
			}
			if len(got) != want {
				t.Errorf("attachment %b at %b: %d are chosen, want %d", bit, at, len(got), want)
			}
		}
	}
}

// TestNothingToChooseFromCostsNothing: a kind without policies allocates nothing at any place.
func TestNothingToChooseFromCostsNothing(t *testing.T) {
	m, sets := &view.Mesh{}, []mesh.Tags{svc("web")}
	var room [4]*view.Policy
	if n := testing.AllocsPerRun(100, func() {
		OnInbound(room[:0], m, everyPlace, sets[0])
		OnConnection(room[:0], m, everyPlace, policy.AtOutbound, sets, "x")
		OnProxy(room[:0], m, everyPlace, sets)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDecided: a policy that yields is decided for where one of the other kind is chosen.
func TestDecided(t *testing.T) {
	other := &policy.Policy{Kind: &model.Kind{Name: "other"}, Attachment: policy.AllByInbound}
	yields := &policy.Policy{Kind: &model.Kind{Name: "yields"}, Attachment: policy.ByInbound, Yields: "other"}
	w := world{named("a", 1, nil, []mesh.Tags{svc("web")})}
	for _, c := range []struct {
		list []*policy.Policy
		p    *policy.Policy
		tags mesh.Tags
		want bool
	}{
		{[]*policy.Policy{yields, other}, yields, svc("web"), true},
		{[]*policy.Policy{yields, other}, yields, svc("api"), false},
		{[]*policy.Policy{yields, other}, other, svc("web"), false},
		{[]*policy.Policy{yields}, yields, svc("web"), false},
	} {
		if got := Decided(w, c.list, c.p, c.tags); got != c.want {
			t.Errorf("%s at %v of %d: %v", c.p.Kind.Name, c.tags, len(c.list), got)
		}
	}
}
