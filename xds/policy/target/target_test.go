package target

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// conf is a configuration with fields at two depths and a list.
type conf struct {
	A     string   `json:"a,omitempty"`
	Below *below   `json:"below,omitempty"`
	List  []string `json:"list,omitempty"`
}

type below struct {
	B string `json:"b,omitempty"`
	N int64  `json:"n,omitempty"`
}

// spec is the spec of a policy with a target.
type spec struct {
	ref  *Ref
	from []Item[conf]
}

func (s *spec) Target() *Ref { return s.ref }

func itemsOf(s any) []Item[conf] { return s.(*spec).from }

var (
	drawTags = rapid.Custom(func(t *rapid.T) mesh.Tags {
		return rapid.MapOfN(rapid.SampledFrom([]string{mesh.TagService, "version", "team"}), rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "tags")
	})
	drawRef = rapid.Custom(func(t *rapid.T) *Ref {
		r := &Ref{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		if r.Kind == Service || r.Kind == ServiceSubset {
			r.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
		}
		if r.Kind == Subset || r.Kind == ServiceSubset {
			r.Tags = rapid.MapOfN(rapid.SampledFrom([]string{"version", "team"}), rapid.SampledFrom([]string{"a", "b"}), 1, 2).Draw(t, "tags")
		}
		return r
	})
	drawConf = rapid.Custom(func(t *rapid.T) *conf {
		one := rapid.SampledFrom([]string{"", "x", "y"})
		c := &conf{A: one.Draw(t, "a")}
		if rapid.Bool().Draw(t, "below") {
			c.Below = &below{B: one.Draw(t, "b"), N: rapid.SampledFrom([]int64{0, 1, 1<<62 + 1}).Draw(t, "n")}
		}
		if rapid.Bool().Draw(t, "listed") {
			c.List = []string{one.Draw(t, "element")}
		}
		return c
	})
	drawPolicies = rapid.Custom(func(t *rapid.T) (out []*view.Policy) {
		for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
			s := &spec{ref: drawRef.Draw(t, "target")}
			for range rapid.IntRange(0, 3).Draw(t, "items") {
				s.from = append(s.from, Item[conf]{drawRef.Draw(t, "from"), drawConf.Draw(t, "default")})
			}
			out = append(out, &view.Policy{Name: fmt.Sprintf("p%d", i), Created: time.Unix(int64(rapid.IntRange(1, 2).Draw(t, "created")), 0), Spec: s})
		}
		slices.SortFunc(out, Order)
		return out
	})
)

// refers is the oracle of references.
func refers(r *Ref, tags mesh.Tags) bool {
	if (r.Kind == Service || r.Kind == ServiceSubset) && tags[mesh.TagService] != r.Name {
		return false
	}
	for key, value := range r.Tags {
		if tags[key] != value {
			return false
		}
	}
	return true
}

// naive applies the items of all policies one after another, the weakest policy first.
func naive(chosen []*view.Policy, tags mesh.Tags) (out *conf, origins []string) {
	for i := len(chosen) - 1; i >= 0; i-- {
		for _, item := range chosen[i].Spec.(*spec).from {
			if !refers(item.TargetRef, tags) {
				continue
			}
			if out == nil {
				out = &conf{}
			}
			d := item.Default
			if d.A != "" {
				out.A = d.A
			}
			if d.List != nil {
				out.List = d.List
			}
			if d.Below != nil {
				merged := below{}
				if out.Below != nil {
					merged = *out.Below
				}
				if d.Below.B != "" {
					merged.B = d.Below.B
				}
				if d.Below.N != 0 {
					merged.N = d.Below.N
				}
				out.Below = &merged
			}
			if !slices.Contains(origins, chosen[i].Name) {
				origins = append([]string{chosen[i].Name}, origins...)
			}
		}
	}
	return out, origins
}

// TestRulesAgainstOracle: for every tag set for which an item says something exactly one rule
// applies, and its conf is what the items that match come to, one over the other. Everybody
// else is in no rule.
func TestRulesAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chosen := drawPolicies.Draw(t, "policies")
		before := fmt.Sprintf("%+v", chosen)
		entries := Entries(chosen, itemsOf)
		rules, ok := Rules(entries, Fields[conf])
		if !ok {
			t.Fatal("too many rules")
		}
		tags := drawTags.Draw(t, "tags")
		want, origins := naive(chosen, tags)
		var got []Ruling[conf]
		for _, r := range rules {
			if r.Matches(tags) {
				got = append(got, r)
			}
		}
		switch {
		case want == nil && len(got) > 0:
			t.Fatalf("%v is in %v, and nothing is said about it", tags, got)
		case want == nil:
			return
		case len(got) != 1:
			t.Fatalf("%v is in %d rules: %v", tags, len(got), got)
		}
		if diff := cmp.Diff(want, got[0].Conf); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", tags, diff)
		}
		if diff := cmp.Diff(origins, got[0].Origins); diff != "" {
			t.Fatalf("origins of %v (-want +got):\n%s", tags, diff)
		}
		direct, from := For(entries, tags, Fields[conf])
		if diff := cmp.Diff(want, direct) + cmp.Diff(origins, from); diff != "" {
			t.Fatalf("%v directly (-want +got):\n%s", tags, diff)
		}
		if after := fmt.Sprintf("%+v", chosen); after != before {
			t.Fatalf("a spec was changed")
		}
	})
}

// TestDecidingEntryIsTheLast: the first deciding entry that matches is the strongest of all
// that match.
func TestDecidingEntryIsTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, tags := Entries(drawPolicies.Draw(t, "policies"), itemsOf), drawTags.Draw(t, "tags")
		want, _ := For(entries, tags, Last[conf])
		var got *conf
		for _, e := range Deciding(entries) {
			if mesh.Matches(e.Selector, tags) {
				got = e.Conf
				break
			}
		}
		if got != want {
			t.Fatalf("%v decides on %v, want %v", got, tags, want)
		}
	})
}

// TestOrder covers how strong policies are.
func TestOrder(t *testing.T) {
	at := func(name string, created int64, r *Ref) *view.Policy {
		return &view.Policy{Name: name, Created: time.Unix(created, 0), Spec: &spec{ref: r}}
	}
	tags := func(keys ...string) mesh.Tags {
		out := mesh.Tags{}
		for _, k := range keys {
			out[k] = "x"
		}
		return out
	}
	want := []*view.Policy{
		at("unreadable", 9, nil),
		at("subset of a service", 1, &Ref{Kind: ServiceSubset, Name: "x", Tags: tags("a")}),
		at("service", 1, &Ref{Kind: Service, Name: "x"}),
		at("more tags", 1, &Ref{Kind: Subset, Tags: tags("a", "b")}),
		at("less tags", 9, &Ref{Kind: Subset, Tags: tags("a")}),
		at("z, later", 2, &Ref{Kind: Mesh}),
		at("a", 1, &Ref{Kind: Mesh}),
		at("b", 1, &Ref{Kind: Mesh}),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Order)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d is %q, want %q", i, got[i].Name, want[i].Name)
		}
	}
}

// TestSubsets shows rules as the mesh API does.
func TestSubsets(t *testing.T) {
	item := func(a string, r *Ref) Item[conf] { return Item[conf]{r, &conf{A: a}} }
	chosen := []*view.Policy{
		{Name: "strong", Spec: &spec{ref: &Ref{Kind: Mesh}, from: []Item[conf]{
			item("v1", &Ref{Kind: ServiceSubset, Name: "web", Tags: mesh.Tags{"version": "v1"}}),
			item("v2", &Ref{Kind: ServiceSubset, Name: "web", Tags: mesh.Tags{"version": "v2"}}),
		}}},
		{Name: "weak", Spec: &spec{ref: &Ref{Kind: Mesh}, from: []Item[conf]{
			item("all", &Ref{Kind: Mesh}), item("api", &Ref{Kind: Service, Name: "api"}),
		}}},
	}
	var got []string
	for _, r := range CallerRules(Entries(chosen, itemsOf), Fields[conf]) {
		got = append(got, fmt.Sprint(mesh.Tags(r.Subset).String(), " ", r.Conf.(*conf).A, " ", r.Origins))
	}
	want := []string{
		"mesh.io/service=web,version=v1 v1 [strong weak]",
		"mesh.io/service=web,version=v2 v2 [strong weak]",
		"mesh.io/service=api api [weak]",
		"mesh.io/service=web,version=!v1,!v2 all [weak]",
		"mesh.io/service=!api,!web all [weak]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestTooManySubsets: where too many subsets would have to be told apart, the items are shown
// as they are, the strongest first.
func TestTooManySubsets(t *testing.T) {
	s := &spec{ref: &Ref{Kind: Mesh}}
	for i := range 64 {
		s.from = append(s.from, Item[conf]{&Ref{Kind: Subset, Tags: mesh.Tags{fmt.Sprintf("tag%d", i): "x"}}, &conf{A: fmt.Sprint(i)}})
	}
	rules := CallerRules(Entries([]*view.Policy{{Name: "p", Spec: s}}, itemsOf), Fields[conf])
	if len(rules) != 64 || rules[0].Conf.(*conf).A != "63" || !maps.Equal(rules[63].Subset, map[string]string{"tag0": "x"}) {
		t.Errorf("%d rules, the first is %+v", len(rules), rules[0])
	}
	if _, ok := Rules(Entries([]*view.Policy{{Name: "p", Spec: &spec{ref: &Ref{Kind: Mesh}, from: s.from[:9]}}}, itemsOf), Fields[conf]); !ok {
		t.Error("512 subsets are too many")
	}
}

// TestUnreadableItems: an item that cannot be read is for everybody and says nothing, so that
// what it was meant to refuse is not forgotten.
func TestUnreadableItems(t *testing.T) {
	entries := Entries([]*view.Policy{{Name: "p", Spec: &spec{ref: &Ref{Kind: Mesh}, from: []Item[conf]{
		{nil, &conf{A: "x"}}, {&Ref{Kind: "MeshGateway", Name: "web"}, &conf{A: "y"}},
	}}}}, itemsOf)
	for _, e := range entries {
		if len(e.Selector) > 0 || e.Conf != nil {
			t.Errorf("%+v", e)
		}
	}
}

// TestCheck covers every violation of a reference.
func TestCheck(t *testing.T) {
	long := make([]byte, 256)
	for i := range long {
		long[i] = 'a'
	}
	for _, c := range []struct {
		name string
		ref  *Ref
		want []string
	}{
		{"mesh", &Ref{Kind: Mesh}, nil},
		{"subset", &Ref{Kind: Subset, Tags: mesh.Tags{"version": "v1"}}, nil},
		{"service", &Ref{Kind: Service, Name: "web"}, nil},
		{"subset of a service", &Ref{Kind: ServiceSubset, Name: "web", Tags: mesh.Tags{"version": "v1"}}, nil},
		{"none", nil, []string{"ref: must be defined"}},
		{"kind", &Ref{Kind: "MeshGateway"}, []string{"ref.kind: value is not supported. Available values: Mesh, MeshSubset, MeshService, MeshServiceSubset"}},
		{"mesh with name", &Ref{Kind: Mesh, Name: "x"}, []string{"ref: must not have name or tags with kind Mesh"}},
		{"mesh with tags", &Ref{Kind: Mesh, Tags: mesh.Tags{"a": "b"}}, []string{"ref: must not have name or tags with kind Mesh"}},
		{"subset with name", &Ref{Kind: Subset, Name: "x", Tags: mesh.Tags{"a": "b"}}, []string{"ref.name: must not be set with kind MeshSubset"}},
		{"subset without tags", &Ref{Kind: Subset}, []string{"ref.tags: must be set with kind MeshSubset"}},
		{"tag", &Ref{Kind: Subset, Tags: mesh.Tags{"a": "*"}}, []string{`ref.tags["a"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`}},
		{"service without name", &Ref{Kind: Service}, []string{"ref.name: must be set with kind MeshService"}},
		{"any service", &Ref{Kind: Service, Name: "*"}, []string{"ref.name: tag value must consist of alphanumeric characters, dots, dashes and underscores"}},
		{"long name", &Ref{Kind: Service, Name: string(long)}, []string{"ref.name: must not be longer than 255 characters"}},
		{"service with tags", &Ref{Kind: Service, Name: "x", Tags: mesh.Tags{"a": "b"}}, []string{"ref.tags: must not be set with kind MeshService"}},
		{"subset of no service", &Ref{Kind: ServiceSubset, Tags: mesh.Tags{"a": "b"}}, []string{"ref.name: must be set with kind MeshServiceSubset"}},
		{"whole service", &Ref{Kind: ServiceSubset, Name: "x"}, []string{"ref.tags: must be set with kind MeshServiceSubset"}},
		{"two services", &Ref{Kind: ServiceSubset, Name: "x", Tags: mesh.Tags{mesh.TagService: "y"}}, []string{"ref.tags: must not have the tag mesh.io/service with kind MeshServiceSubset, which has a name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v policy.Violations
			Check(&v, "ref", c.ref, Kinds()...)
			var got []string
			for _, x := range v {
				got = append(got, x.Path+": "+x.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreadableTarget: a policy whose target cannot be read says nothing, is about everybody,
// and is the strongest: it may have been there to keep somebody out.
func TestUnreadableTarget(t *testing.T) {
	for _, unreadable := range []*Ref{nil, {Kind: "MeshGateway", Name: "edge"}} {
		strange := &view.Policy{Name: "strange", Spec: &spec{ref: unreadable}}
		plain := &view.Policy{Name: "plain", Spec: &spec{ref: &Ref{Kind: ServiceSubset, Name: "a", Tags: mesh.Tags{"v": "1"}}}}
		if Order(strange, plain) >= 0 || Order(plain, strange) <= 0 {
			t.Errorf("%+v is not the strongest", unreadable)
		}
		conf := 1
		got := Entries([]*view.Policy{strange}, func(any) []Item[int] { return []Item[int]{{&Ref{Kind: Service, Name: "web"}, &conf}} })
		if len(got) != 1 || len(got[0].Selector) != 0 || got[0].Conf != nil {
			t.Errorf("%+v: entries %+v", unreadable, got)
		}
	}
}
