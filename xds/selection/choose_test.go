package selection

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// world is a list of all policies. It yields as few of them as a view does.
type world []*view.Policy

func (w world) Candidates(_ *model.Kind, service string) iter.Seq[*view.Policy] {
	return func(yield func(*view.Policy) bool) {
		for _, p := range w {
			may := p.Targets == nil && len(p.Destinations) == 0 || slices.ContainsFunc(slices.Concat(p.Targets, p.Destinations), func(d mesh.Tags) bool {
				s := d[mesh.TagService]
				return s == "" || s == mesh.AnyValue || s == service
			})
			if may && !yield(p) {
				return
			}
		}
	}
}

var testPolicy = &policy.Policy{Kind: &model.Kind{Name: "test"}}

func svc(name string) mesh.Tags { return mesh.Tags{mesh.TagService: name} }

func named(name string, created int, sources, destinations []mesh.Tags) *view.Policy {
	return &view.Policy{Name: name, Created: time.Unix(int64(created), 0), Sources: sources, Destinations: destinations}
}

// TestOutbound covers the examples of mesh policy selection.
func TestOutbound(t *testing.T) {
	all := []mesh.Tags{svc("*")}
	web := []mesh.Tags{{mesh.TagService: "web", "version": "v1"}}
	for _, c := range []struct {
		name     string
		policies world
		want     string
	}{
		{"none", nil, ""},
		{"more tags beat exact ones", world{
			named("exact", 1, []mesh.Tags{svc("web")}, all),
			named("more", 1, []mesh.Tags{{mesh.TagService: "*", "version": "*"}}, all),
		}, "more"},
		{"exact beats wildcard", world{named("a", 9, all, all), named("b", 1, all, []mesh.Tags{svc("backend")})}, "b"},
		{"later wins", world{named("a", 1, all, all), named("b", 2, all, all), named("c", 1, all, all)}, "b"},
		{"equally old: first by name", world{named("a", 1, all, all), named("b", 1, all, all)}, "a"},
		{"other tags of destinations never match", world{
			named("a", 1, all, []mesh.Tags{{mesh.TagService: "backend", "version": "*"}}),
		}, ""},
		{"source is another", world{named("a", 1, []mesh.Tags{svc("api")}, all)}, ""},
		{"the key must exist", world{named("a", 1, []mesh.Tags{{"team": "*"}}, all)}, ""},
		{"best of several selectors", world{
			named("a", 1, []mesh.Tags{svc("*"), {mesh.TagService: "web", "version": "v1"}}, all),
			named("b", 2, []mesh.Tags{svc("web")}, all),
		}, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if p := outbound(c.policies, testPolicy, web, "backend"); p != nil {
				got = p.Name
			}
			if got != c.want {
				t.Errorf("chose %q, want %q", got, c.want)
			}
		})
	}
}

// scored is the oracle: it returns a number for every way in which a policy matches.
func scored(selectors, sets []mesh.Tags) []int {
	if len(selectors) == 0 {
		return []int{0}
	}
	var out []int
	for _, s := range selectors {
		for _, set := range sets {
			score, ok := 0, true
			for k, v := range s {
				have, exists := set[k]
				ok = ok && exists && (v == "*" || v == have)
				score += 100
				if v != "*" {
					score++
				}
			}
			if ok {
				out = append(out, score)
			}
		}
	}
	return out
}

// naive chooses by looking at all policies. Sources count only if bySource is set.
func naive(w world, sources, destinations []mesh.Tags, bySource bool) *view.Policy {
	var best *view.Policy
	bestScore := -1
	for _, p := range w {
		from, to := []int{0}, scored(p.Destinations, destinations)
		if bySource {
			from = scored(p.Sources, sources)
		}
		if len(from) == 0 || len(to) == 0 {
			continue
		}
		score := slices.Max(from) + slices.Max(to)
		older := best != nil && (p.Created.Before(best.Created) || p.Created.Equal(best.Created) && p.Name > best.Name)
		if score > bestScore || score == bestScore && !older {
			best, bestScore = p, score
		}
	}
	return best
}

var (
	drawSelector = rapid.Custom(func(t *rapid.T) mesh.Tags {
		return mesh.Tags(rapid.MapOfN(rapid.SampledFrom([]string{mesh.TagService, "version", "team"}),
			rapid.SampledFrom([]string{"*", "a", "b"}), 0, 3).Draw(t, "selector"))
	})
	drawTags = rapid.Custom(func(t *rapid.T) mesh.Tags {
		return mesh.Tags(rapid.MapOfN(rapid.SampledFrom([]string{mesh.TagService, "version", "team"}),
			rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "tags"))
	})
	drawWorld = rapid.Custom(func(t *rapid.T) world {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,2}`), 0, 8, rapid.ID[string]).Draw(t, "names")
		slices.Sort(names)
		var w world
		for _, name := range names {
			w = append(w, named(name, rapid.IntRange(1, 3).Draw(t, "created"),
				rapid.SliceOfN(drawSelector, 0, 3).Draw(t, "sources"), rapid.SliceOfN(drawSelector, 0, 3).Draw(t, "destinations")))
		}
		return w
	})
)

// TestSelectionAgainstOracle compares each choice with one that scans everything.
func TestSelectionAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld.Draw(t, "world")
		sets := rapid.SliceOfN(drawTags, 1, 3).Draw(t, "sets")
		service := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "service")
		if got, want := outbound(w, testPolicy, sets, service), naive(w, sets, []mesh.Tags{svc(service)}, true); got != want {
			t.Fatalf("outbound: chose %v, want %v", got, want)
		}
		if got, want := inbound(w, testPolicy, sets[0]), naive(w, nil, sets[:1], false); got != want {
			t.Fatalf("inbound: chose %v, want %v", got, want)
		}
		if got, want := proxy(w, testPolicy, sets), naive(w, nil, sets, false); got != want {
			t.Fatalf("proxy: chose %v, want %v", got, want)
		}
		all(t, w, sets[0])
	})
}

func all(t *rapid.T, w world, tags mesh.Tags) {
	got := allInbound(w, testPolicy, tags)
	for _, p := range w {
		if (len(scored(p.Destinations, []mesh.Tags{tags})) > 0) != slices.Contains(got, p) {
			t.Fatalf("all inbound: %s is wrongly in or out", p.Name)
		}
	}
	first := func(p *view.Policy) int {
		score := 0
		if len(p.Sources) > 0 {
			for _, v := range p.Sources[0] {
				if score += 100; v != "*" {
					score++
				}
			}
		}
		return score
	}
	for i := 1; i < len(got); i++ {
		a, b := got[i-1], got[i]
		if first(a) < first(b) || first(a) == first(b) && a.Created.Before(b.Created) {
			t.Fatalf("all inbound: %s comes before %s", a.Name, b.Name)
		}
	}
}

// TestAllInbound checks the order, and that a policy that matches twice occurs once.
func TestAllInbound(t *testing.T) {
	to := []mesh.Tags{svc("*"), svc("backend")}
	w := world{
		named("a", 1, []mesh.Tags{svc("*")}, to),
		named("b", 2, []mesh.Tags{svc("*"), {mesh.TagService: "web", "version": "v1"}}, to),
		named("c", 1, []mesh.Tags{svc("web")}, to),
		named("d", 1, []mesh.Tags{svc("web")}, []mesh.Tags{svc("other")}),
	}
	var got []string
	for _, p := range allInbound(w, testPolicy, svc("backend")) {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"c", "b", "a"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestSelectionDoesNotAllocate covers the code of this package: the loop over a view, and the
// comparison of policies.
func TestSelectionDoesNotAllocate(t *testing.T) {
	m, sets := &view.Mesh{}, []mesh.Tags{{mesh.TagService: "web", "version": "v1"}}
	p := named("a", 1, []mesh.Tags{svc("*"), svc("web")}, []mesh.Tags{svc("*"), svc("backend")})
	for name, choose := range map[string]func(){
		"outbound": func() { outbound(m, testPolicy, sets, "backend") },
		"inbound":  func() { inbound(m, testPolicy, sets[0]) },
		"proxy":    func() { proxy(m, testPolicy, sets) },
		"ranks": func() {
			var w winner
			w.outbound(p, sets, "backend")
			w.inbound(p, sets[0])
		},
	} {
		if n := testing.AllocsPerRun(100, choose); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
