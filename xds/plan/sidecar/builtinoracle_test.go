package sidecar_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// request is one at a gateway; header says whether it has X: 1.
type request struct {
	host, path, method string
	header             bool
}

// doorMatch is one match of a random route, in plain terms.
type doorMatch struct {
	route, hosts       int // the route, and which of its host names
	kind, path, method string
	header             bool
}

// stands reports whether a host name of a document stands for a host.
func stands(name, host string) bool {
	below, wild := strings.CutPrefix(name, "*")
	return name == host || wild && strings.HasSuffix(host, below)
}

// takes is a naive reading of what a match demands.
func (m *doorMatch) takes(r request) bool {
	path := false
	switch m.kind {
	case mesh.MatchExact:
		path = r.path == m.path
	case mesh.MatchPrefix:
		path = m.path == "/" || r.path == m.path || strings.HasPrefix(r.path, m.path+"/")
	case mesh.MatchRegex:
		path = regexp.MustCompile("^(" + m.path + ")$").MatchString(r.path)
	}
	return path && (m.method == "" || m.method == r.method) && (!m.header || r.header)
}

// before orders matches as the documents say.
func (m *doorMatch) before(o *doorMatch) int {
	rank := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
	kinds := []string{mesh.MatchExact, mesh.MatchPrefix, mesh.MatchRegex}
	return cmp.Or(slices.Index(kinds, m.kind)-slices.Index(kinds, o.kind), len(o.path)-len(m.path), rank(m.method != "")-rank(o.method != ""), rank(m.header)-rank(o.header), m.route-o.route)
}

// answeredBy reads a route table as Envoy does: the virtual host with the longest name, and its first
// route that matches. It returns the host of the redirect, or the status.
func answeredBy(t *routev3.RouteConfiguration, r request) string {
	var host *routev3.VirtualHost
	longest := -1
	for _, v := range t.GetVirtualHosts() {
		for _, d := range v.GetDomains() {
			if stands(d, r.host) && (len(d) > longest || d == r.host) && (host == nil || host.GetName() != r.host) {
				host, longest = v, len(d)
			}
		}
	}
	for _, route := range host.GetRoutes() {
		if matchesAsEnvoy(route.GetMatch(), r) {
			return route.GetRedirect().GetHostRedirect()
		}
	}
	return "404"
}

func matchesAsEnvoy(m *routev3.RouteMatch, r request) bool {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		if r.path != p.Path {
			return false
		}
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(r.path, p.Prefix) {
			return false
		}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		if r.path != p.PathSeparatedPrefix && !strings.HasPrefix(r.path, p.PathSeparatedPrefix+"/") {
			return false
		}
	case *routev3.RouteMatch_SafeRegex:
		if !regexp.MustCompile("^(" + p.SafeRegex.GetRegex() + ")$").MatchString(r.path) {
			return false
		}
	}
	has := map[string]string{":method": r.method, ":authority": r.host}
	if r.header {
		has["x"] = "1"
	}
	for _, h := range m.GetHeaders() {
		value, there := has[h.GetName()]
		if text := h.GetStringMatch().GetContains(); text != "" && !strings.Contains(value, text) || text == "" && (!there || value != h.GetStringMatch().GetExact()) {
			return false
		}
	}
	return true
}

// TestHostsAndPathsByPriority holds the route tables of random gateways against a naive reading of their
// documents, for every request of a small world.
func TestHostsAndPathsByPriority(t *testing.T) {
	listeners := []string{"*", "*.example", "a.example", "*.a.example"}
	names := [][]string{nil, {"a.example"}, {"*.example"}, {"*.a.example", "b.example"}, {"elsewhere.test"}}
	hosts := []string{"a.example", "b.example", "x.a.example", "elsewhere.test", "other.test"}
	paths := []string{"/", "/a", "/a/b", "/ab", "/a/b/c"}
	few.UnderRace(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldOf(t, all.Policies())
		w.put(mesh.Dataplanes, meshName, "edge-1", entrance("127.0.0.51"))
		open := rapid.SliceOfNDistinct(rapid.SampledFrom(listeners), 1, 4, rapid.ID[string]).Draw(rt, "listeners")
		text := ""
		for _, host := range open {
			text += fmt.Sprintf("  - {port: 18080, protocol: HTTP, hostname: %q}\n", host)
		}
		w.gateway(t, text)
		var matches []doorMatch
		for i := range rapid.IntRange(1, 5).Draw(rt, "routes") {
			m := doorMatch{
				route: i, hosts: rapid.IntRange(0, len(names)-1).Draw(rt, "hostnames"), method: rapid.SampledFrom([]string{"", "GET", "POST"}).Draw(rt, "method"),
				kind: rapid.SampledFrom([]string{mesh.MatchExact, mesh.MatchPrefix, mesh.MatchRegex}).Draw(rt, "kind"), header: rapid.Bool().Draw(rt, "header"),
			}
			m.path = rapid.SampledFrom(paths).Draw(rt, "path")
			if m.kind == mesh.MatchRegex {
				m.path += "[ab/]*"
			}
			matches = append(matches, m)
			match := map[string]any{"path": map[string]any{"match": m.kind, "value": m.path}}
			if m.method != "" {
				match["method"] = m.method
			}
			if m.header {
				match["headers"] = []any{map[string]any{"name": "x", "value": "1"}}
			}
			w.put(mesh.MeshGatewayRoutes, meshName, fmt.Sprintf("r%d", i), routeTo(t, names[m.hosts], match, fmt.Sprintf("r%d.test", i)))
		}
		w.joined("edge-1")
		table := tableOf(t, w.planner.Set("edge-1"), edgeTable)
		slices.SortStableFunc(matches, func(a, b doorMatch) int { return a.before(&b) })
		for _, host := range hosts {
			for _, path := range paths {
				for i := range 4 {
					r := request{host, path, []string{"GET", "POST"}[i%2], i > 1}
					want := "404"
					if slices.ContainsFunc(open, func(l string) bool { return stands(l, host) }) {
						for _, m := range matches {
							about := names[m.hosts] == nil || slices.ContainsFunc(names[m.hosts], func(n string) bool { return stands(n, host) })
							if about && m.takes(r) {
								want = fmt.Sprintf("r%d.test", m.route)
								break
							}
						}
					}
					if got := answeredBy(table, r); got != want {
						rt.Fatalf("%+v goes to %s, want %s", r, got, want)
					}
				}
			}
		}
	})
}

// routeTo is a route that redirects to a host.
func routeTo(t *testing.T, hostnames []string, match map[string]any, host string) any {
	t.Helper()
	h := map[string]any{"rules": []any{map[string]any{
		"matches": []any{match}, "filters": []any{map[string]any{"redirect": map[string]any{"hostname": host, "statusCode": 302}}},
	}}}
	if hostnames != nil {
		h["hostnames"] = hostnames
	}
	raw, err := json.Marshal(map[string]any{"selectors": []any{map[string]any{"match": map[string]any{mesh.TagService: "edge"}}}, "conf": map[string]any{"http": h}})
	if err != nil {
		t.Fatal(err)
	}
	_, spec, err := model.DecodeDocument(mesh.MeshGatewayRoutes, raw)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}
