package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// header returns what Envoy writes for the certificate of a proxy with some tags.
func header(tags mesh.Tags) string {
	service := mesh.SPIFFE("demo", tags.Service())
	var names []string
	for k, v := range tags {
		names = append(names, mesh.TagURI(k, v))
	}
	slices.Sort(names)
	names = append(append([]string{service}, names...), service)
	return "By=spiffe://demo/backend;Hash=00;URI=" + strings.Join(names, ";URI=")
}

// are evaluates callers as Envoy does.
func (c Callers) are(value string) bool {
	return !slices.ContainsFunc(c, func(h *routev3.HeaderMatcher) bool {
		m := h.GetStringMatch()
		holds := strings.Contains(value, m.GetContains())
		if re := m.GetSafeRegex(); re != nil {
			holds = regexp.MustCompile(`^(?:` + re.GetRegex() + `)$`).MatchString(value)
		}
		return holds == h.GetInvertMatch()
	})
}

// TestCallersAgreeWithSelectors: a caller is selected if and only if one of the sources
// matches its tags. It is in one element only, at least if all sources ask for single tags.
func TestCallersAgreeWithSelectors(t *testing.T) {
	keys := rapid.SampledFrom([]string{mesh.TagService, "team", "team/x", "tea", "a.b", "axb"})
	rapid.Check(t, func(t *rapid.T) {
		tags := mesh.Tags(rapid.MapOfN(keys, rapid.SampledFrom([]string{"web", "we", "a.b", "axb"}), 0, 4).Draw(t, "tags"))
		if tags.Service() == "" {
			tags[mesh.TagService] = "web"
		}
		var sources []mesh.Selector
		single := true
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			m := rapid.MapOfN(keys, rapid.SampledFrom([]string{"*", "web", "we", "a.b", "axb", "x/web", ".*"}), 0, 3).Draw(t, "match")
			sources, single = append(sources, mesh.Selector{Match: m}), single && len(m) <= 1
		}
		of := 0
		for _, c := range FromSources(sources) {
			if c.are(header(tags)) {
				of++
			}
		}
		want := slices.ContainsFunc(sources, func(s mesh.Selector) bool { return mesh.Matches(s.Match, tags) })
		if want != (of > 0) || single && of > 1 {
			t.Fatalf("%v is of %d, sources are %v", tags, of, sources)
		}
	})
}

// TestForSources: the first call that selects a caller applies to it, and everybody else keeps
// the earlier routes.
func TestForSources(t *testing.T) {
	r := &Routes{Host: &routev3.VirtualHost{Routes: []*routev3.Route{{
		Match: &routev3.RouteMatch{}, Action: &routev3.Route_Route{Route: &routev3.RouteAction{}},
	}}}}
	web := []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}}
	leading := func(sources ...mesh.Selector) (lead []*routev3.Route) {
		if err := r.ForSources(sources, func(route *routev3.Route) { lead = append(lead, route) }); err != nil {
			t.Fatal(err)
		}
		return lead
	}
	one, two := leading(web...), leading(append(web, mesh.Selector{Match: mesh.Tags{"team": "a"}})...)
	all := leading(mesh.Selector{Match: mesh.Tags{mesh.TagService: "*"}})
	if len(one) != 1 || len(two) != 2 || len(all) != 1 || !slices.Equal(r.Host.Routes, slices.Concat(one, two, all)) {
		t.Errorf("%d, %d and %d routes; all are %v", len(one), len(two), len(all), r.Host.Routes)
	}
}

// TestDivide: of every caller, whatever routes it already has, each route gets what the first
// division about it says, or else what is for the others.
func TestDivide(t *testing.T) {
	tags := rapid.Custom(func(t *rapid.T) mesh.Tags {
		return rapid.MapOfN(rapid.SampledFrom([]string{mesh.TagService, "team"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "tags")
	})
	rapid.Check(t, func(t *rapid.T) {
		prefix := func(path string) *routev3.Route {
			return &routev3.Route{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: path}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{}},
			}
		}
		r := &Routes{Host: &routev3.VirtualHost{Routes: []*routev3.Route{prefix("/a"), prefix("/")}}}
		own := tags.Draw(t, "own")
		if err := r.ForSources([]mesh.Selector{{Match: own}}, func(route *routev3.Route) { route.RequestHeadersToRemove = []string{"own"} }); err != nil {
			t.Fatal(err)
		}
		var of []Division
		for i := range rapid.IntRange(0, 3).Draw(t, "n") {
			of = append(of, Division{tags.Draw(t, "source"), func(route *routev3.Route) error { route.Name = fmt.Sprint(i); return nil }})
		}
		if err := r.Divide(of, func(route *routev3.Route) error { route.Name = "others"; return nil }); err != nil {
			t.Fatal(err)
		}
		caller, path := tags.Draw(t, "caller"), rapid.SampledFrom([]string{"/a", "/"}).Draw(t, "path")
		if caller.Service() == "" {
			caller[mesh.TagService] = "c"
		}
		want := "others"
		for i, d := range of {
			if mesh.Matches(d.Source, caller) {
				want = fmt.Sprint(i)
				break
			}
		}
		for _, route := range r.Host.Routes {
			if !Callers(route.GetMatch().GetHeaders()).are(header(caller)) || !strings.HasPrefix(path, route.GetMatch().GetPrefix()) {
				continue
			}
			if route.GetName() != want || (len(route.GetRequestHeadersToRemove()) > 0) != mesh.Matches(own, caller) {
				t.Fatalf("%v at %s takes %v, want %s", caller, path, route, want)
			}
			return
		}
		t.Fatalf("%v at %s has no route", caller, path)
	})
}

// TestForSourcesIsBounded: the same holds of groups of callers that get settings one after another.
// What everybody takes is no copy.
func TestForSourcesIsBounded(t *testing.T) {
	give := func(bytes int, source func(i int) mesh.Tags) (err error) {
		r := &Routes{Host: &routev3.VirtualHost{}}
		for range 16 {
			r.Host.Routes = append(r.Host.Routes, &routev3.Route{Match: &routev3.RouteMatch{}, Action: &routev3.Route_Route{Route: &routev3.RouteAction{}}})
		}
		for i := 0; i < 16 && err == nil; i++ {
			err = r.ForSources([]mesh.Selector{{Match: source(i)}}, func(route *routev3.Route) { route.Name = strings.Repeat("x", bytes) })
		}
		return err
	}
	team := func(i int) mesh.Tags { return mesh.Tags{"team": fmt.Sprint(i)} }
	if err := give(maxDivided/16/16/2, team); err != nil {
		t.Error(err)
	}
	if err := give(maxDivided/16/16, team); err == nil || err.Error() != "256 routes for groups of callers are more than 4 MiB" {
		t.Errorf("too much: %v", err)
	}
	if err := give(maxDivided, func(int) mesh.Tags { return mesh.Tags{mesh.TagService: mesh.AnyValue} }); err != nil {
		t.Errorf("for everybody: %v", err)
	}
}

// TestDivideIsBounded: groups of callers times routes do not make more than a proxy takes.
func TestDivideIsBounded(t *testing.T) {
	divide := func(bytes int) error {
		r := &Routes{Host: &routev3.VirtualHost{}}
		for range 16 {
			r.Host.Routes = append(r.Host.Routes, &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}})
		}
		var of []Division
		for i := range 16 {
			of = append(of, Division{mesh.Tags{"team": fmt.Sprint(i)}, func(route *routev3.Route) error { route.Name = strings.Repeat("x", bytes); return nil }})
		}
		return r.Divide(of, func(*routev3.Route) error { return nil })
	}
	if err := divide(maxDivided / 16 / 16 / 2); err != nil {
		t.Error(err)
	}
	if err := divide(maxDivided / 16 / 16); err == nil || err.Error() != "16 routes for 16 groups of callers are more than 4 MiB" {
		t.Errorf("too much: %v", err)
	}
}
