package edge

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestFamilies: routes for protocols other than HTTP lead to the right result.
func TestFamilies(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	for n, protocols := range [][]string{{"grpc", "grpcs"}, {"grpcs"}, {"ws", "wss"}, {"wss"}} {
		r := routeSpec(id(1, 0), fmt.Sprintf("/p%d", n))
		r.Protocols, r.StripPath = protocols, false
		w.put(gateway.Routes, id(2, n), 1, r)
	}
	set := NewPlanner(testParams).Plan(w.state()).Set
	for _, c := range []struct {
		scheme, path, want string
		protocol           contract.Protocol
	}{
		{"http", "/p0/x", "to " + id(2, 0) + " /p0/x filtered", contract.ProtocolGRPC},
		{"https", "/p0/x", "to " + id(2, 0) + " /p0/x filtered", contract.ProtocolGRPC},
		{"http", "/p1/x", "200 " + id(2, 1) + " filtered", contract.ProtocolGRPC},
		{"https", "/p1/x", "to " + id(2, 1) + " /p1/x filtered", contract.ProtocolGRPC},
		{"HTTPS", "/p1/x", "to " + id(2, 1) + " /p1/x filtered", contract.ProtocolGRPC},
		{"http", "/p2/x", "to " + id(2, 2) + " /p2/x filtered", contract.ProtocolWebSocket},
		{"http", "/p3/x", "426 " + id(2, 3), ""},
		{"https", "/p3/x", "to " + id(2, 3) + " /p3/x filtered", contract.ProtocolWebSocket},
	} {
		r := request{method: "POST", scheme: c.scheme, host: "x", path: c.path}
		if got := evaluate(t, set, r); got != c.want {
			t.Errorf("%+v: %s, want %s", r, got, c.want)
		}
		route := taken(t, set, r)
		if got := chainOf(t, set, route).Protocol; got != c.protocol {
			t.Errorf("%+v: protocol %q, want %q", r, got, c.protocol)
		}
		upgrades := route.GetRoute().GetUpgradeConfigs()
		if off := len(upgrades) == 1 && !upgrades[0].GetEnabled().GetValue(); off != (c.protocol == contract.ProtocolGRPC && route.GetRoute() != nil) {
			t.Errorf("%+v: upgrades %v", r, upgrades)
		}
	}
}

// TestRoutesShareChains: routes whose requests are decided alike carry one chain, once.
func TestRoutesShareChains(t *testing.T) {
	w := newWorld(t)
	for n := range 2 {
		w.put(gateway.Services, id(1, n), 1, serviceSpec("/s"))
		w.put(gateway.Plugins, id(3, n), 1, pluginSpec(t, "", id(1, n), nil))
	}
	for n := range 10 {
		w.put(gateway.Routes, id(2, n), 1, routeSpec(id(1, n/8), fmt.Sprintf("/p%d", n)))
	}
	w.put(gateway.Plugins, id(3, 9), 1, pluginSpec(t, id(2, 0), "", nil))
	set := NewPlanner(testParams).Plan(w.state()).Set
	if got := len(encodedChains(t, tableOf(t, set))); got != 3 {
		t.Errorf("%d chains for two services and a route with a plugin of its own", got)
	}
	for n, want := range map[int]int{0: 9, 1: 0, 7: 0, 8: 1} {
		route := taken(t, set, request{method: "GET", scheme: "http", host: "x", path: fmt.Sprintf("/p%d/a", n)})
		if c := chainOf(t, set, route); len(c.Plugins) != 1 || c.Plugins[0].ID != id(3, want) || c.Service != id(1, n/8) {
			t.Errorf("route %d has %+v", n, c)
		}
		if said := saidBy(t, route); said.Strip == nil || route.GetRoute().GetRegexRewrite() != nil {
			t.Errorf("route %d says %s, rewrites %v", n, said, route.GetRoute().GetRegexRewrite())
		}
	}
}

// TestInsecureGRPCTellsThePluginsNothing: a request without TLS to a grpcs route reaches no
// plugin; only the protocol is checked.
func TestInsecureGRPCTellsThePluginsNothing(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	r := routeSpec(id(1, 0), "/a")
	r.Protocols, r.StripPath = []string{"grpcs"}, false
	w.put(gateway.Routes, id(2, 0), 1, r)
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", nil))
	set := NewPlanner(testParams).Plan(w.state()).Set
	for scheme, want := range map[string]int{"http": 0, "https": 1} {
		c := chainOf(t, set, taken(t, set, request{method: "POST", scheme: scheme, host: "x", path: "/a"}))
		if len(c.Plugins) != want || c.Protocol != contract.ProtocolGRPC {
			t.Errorf("%s: %+v", scheme, c)
		}
	}
}

// TestMetadataPlaces: if a plugin of a route answers for metadata, the route also matches the
// well-known location of each of its paths, for any method, and no other location.
func TestMetadataPlaces(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	mine := routeSpec(id(1, 0), "/a", "/b/", "~/c")
	mine.Methods = []string{"POST"}
	w.put(gateway.Routes, id(2, 0), 1, mine)
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", func(c *gateway.OAuth2Config) { c.Endpoints = true }))
	explicit := routeSpec("", "/.well-known/oauth-authorization-server/a/own/x")
	explicit.Methods = []string{"GET"}
	w.put(gateway.Routes, id(2, 1), 1, explicit)
	hosted := routeSpec(id(1, 0))
	hosted.Hosts = []string{"h.test"}
	w.put(gateway.Routes, id(2, 2), 1, hosted)
	w.put(gateway.Plugins, id(3, 1), 1, pluginSpec(t, id(2, 2), "", func(c *gateway.OAuth2Config) { c.Endpoints = true }))
	set := NewPlanner(testParams).Plan(w.state()).Set
	const at = "/.well-known/oauth-authorization-server"
	for _, c := range []struct{ host, path, want string }{
		{"x", at + "/a", "to " + id(2, 0) + " " + at + "/a filtered"},
		{"x", at + "/a?x", "to " + id(2, 0) + " " + at + "/a?x filtered"},
		{"x", at + "/a/", "to " + id(2, 0) + " " + at + "/a/ filtered"},
		{"x", at + "/b", "to " + id(2, 0) + " " + at + "/b filtered"},
		{"x", at + "/b/x", "to " + id(2, 0) + " " + at + "/b/x filtered"},
		{"x", at + "/a/own/x", "503 " + id(2, 1)},
		{"x", at + "/ab", "404 "}, {"x", at, "404 "}, {"x", at + "/c", "404 "}, {"x", "/a", "404 "},
		{"h.test", at, "to " + id(2, 2) + " " + at + " filtered"},
	} {
		if got := evaluate(t, set, request{method: "GET", scheme: "http", host: c.host, path: c.path}); got != c.want {
			t.Errorf("%s%s: %s, want %s", c.host, c.path, got, c.want)
		}
	}
}

// TestNothingEscapesIntoExpressions uses characters with a meaning in regular expressions in
// hosts, paths, headers and the paths of services.
func TestNothingEscapesIntoExpressions(t *testing.T) {
	text := rapid.StringMatching(`[a-c.*+?|()\[\]{}^$\\%~-]{1,5}`)
	ambiguous := regexp.MustCompile("(?s)^(?:" + strings.ReplaceAll(dotSegment, `\C`, ".") + ")$")
	rapid.Check(t, func(rt *rapid.T) {
		clean := func(s string) string { return strings.NewReplacer("?", "", "%", "", "*", "").Replace(s) }
		path, base, value := "/x"+clean(text.Draw(rt, "path")), "/y"+clean(text.Draw(rt, "base")), "v"+text.Draw(rt, "value")
		host := rapid.StringMatching(`[a-c][a-c-]{0,2}`).Draw(rt, "host")
		routes := []oracleRoute{{id: id(2, 0), created: 1, base: base, spec: &gateway.Route{
			Protocols: []string{"http"}, Hosts: []string{"*." + host + ".test", host + ".*"}, Paths: []string{path},
			Headers: map[string][]string{"x-one": {value}}, StripPath: rapid.Bool().Draw(rt, "strip"), Service: id(1, 0),
		}}, {id: id(2, 1), created: 1, base: base, spec: &gateway.Route{
			Protocols: []string{"http"}, Hosts: []string{"q.test"}, Paths: []string{path}, StripPath: true, Service: id(1, 1),
		}}, {id: id(2, 2), created: 1, spec: &gateway.Route{Protocols: []string{"http"}, Methods: []string{"DELETE"}}}}
		w := newWorld(rt)
		for n, r := range routes {
			w.putOracle(r, n)
		}
		p := NewPlanner(testParams)
		p.copies = 1 // so that hosts are compared, not only looked up
		table := tableOf(rt, p.Plan(w.state()).Set)
		asked := rapid.SampledFrom([]string{path, path + "/z", path + "z", path + "../z", path + "/", "/x" + clean(text.Draw(rt, "asked"))})
		for range 10 {
			req := request{
				method: "GET", scheme: "http", port: 8000, path: asked.Draw(rt, "path"),
				host:    rapid.SampledFrom([]string{"z." + host + ".test", "z" + host + "xtest", host + ".z", host + "xz", "q.test", "qxtest"}).Draw(rt, "host"),
				headers: map[string]string{"x-one": rapid.SampledFrom([]string{value, strings.ToUpper(value), "v" + text.Draw(rt, "sent")}).Draw(rt, "value")},
			}
			if ambiguous.MatchString(req.path) {
				continue // the guards answer; see TestDotSegments
			}
			if got, want := decide(rt, table, req), oracle(routes, req); got != want {
				rt.Fatalf("%+v\n got %s\nwant %s", req, got, want)
			}
		}
	})
}

// TestRedirects covers every status code, for https and wss.
func TestRedirects(t *testing.T) {
	for code, want := range redirects {
		for _, protocol := range []string{"https", "wss"} {
			w := newWorld(t)
			w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
			r := routeSpec(id(1, 0), "/a")
			r.Protocols, r.HTTPSRedirectStatusCode = []string{protocol}, code
			w.put(gateway.Routes, id(2, 0), 1, r)
			set := NewPlanner(testParams).Plan(w.state()).Set
			for host, location := range map[string]string{"a.test": "a.test", "a.test:8000": "a.test:8443", "a.test:1": "a.test:1"} {
				got := evaluate(t, set, request{method: "GET", scheme: "http", host: host, path: "/a/b?c"})
				if expected := fmt.Sprintf("%v %s https://%s/a/b?c", want, id(2, 0), location); got != expected {
					t.Errorf("%d %s: %s, want %s", code, host, got, expected)
				}
			}
		}
	}
	if len(redirects) != 4 || redirects[308] != routev3.RedirectAction_PERMANENT_REDIRECT {
		t.Errorf("codes %v", redirects)
	}
}
