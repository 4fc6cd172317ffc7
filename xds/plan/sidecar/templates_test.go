package sidecar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestTemplatesLeaveNothingBehind: of what a template removes, a proxy keeps neither assignments
// nor route tables nor keys, and has all of them again without the template.
func TestTemplatesLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend", "bank"))
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte(clientPEM + rootCA)})
	w.put(mesh.ExternalServices, meshName, "bank", presenting("bank.example:443", "bank", "client"))
	before := w.joined("web-1")
	keys := func(s *resource.Set) (n int) {
		for _, name := range s.Secrets() {
			if _, is := mesh.ParseExternalClient(name); is {
				n++
			}
		}
		return n
	}
	has := func(s *resource.Set) []int {
		return []int{len(s.All(resource.Listener)), len(s.All(resource.Endpoint)), len(s.All(resource.Route)), keys(s)}
	}
	if slices.Contains(has(before), 0) {
		t.Fatalf("the proxy has too little: %v", has(before))
	}
	template := func(change proxytemplate.Modification, imports ...string) *proxytemplate.Spec {
		return &proxytemplate.Spec{Conf: &proxytemplate.Conf{Imports: imports, Modifications: []proxytemplate.Modification{change}}}
	}
	remove := &proxytemplate.Change{Operation: "remove"}
	w.put(proxytemplate.Kind, meshName, "x", template(proxytemplate.Modification{Cluster: remove}))
	w.settle()
	if got := has(w.planner.Set("web-1")); !slices.Equal(got, []int{0, 0, 0, 0}) {
		t.Errorf("without imports the proxy has %v", got)
	}
	// Of the listeners only that of the inbound stays, and of the tables only that of the inbound.
	w.put(proxytemplate.Kind, meshName, "x", template(proxytemplate.Modification{Listener: remove}, "default-proxy"))
	w.settle()
	if got := has(w.planner.Set("web-1")); got[0] != 1 || got[2] != 1 {
		t.Errorf("without outbounds the proxy has %v", got)
	}
	w.drop(proxytemplate.Kind, "x")
	w.settle()
	if !w.planner.Set("web-1").Equal(before) {
		t.Error("the template is gone, and the proxy has something else than before")
	}
}

// TestEmptySetIsASet: a proxy that a template leaves nothing joins as any other does.
func TestEmptySetIsASet(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http"))
	w.put(proxytemplate.Kind, meshName, "x", &proxytemplate.Spec{Conf: &proxytemplate.Conf{}})
	w.settle()
	w.planner.Join("web-1")
	if changed := w.settle(); !changed["web-1"] || w.planner.Set("web-1") == nil {
		t.Errorf("changed are %v, the set is %v", changed, w.planner.Set("web-1"))
	}
}

// guardsOf lists the filters of a listener that are before its last ones, by the sort by which a
// template changes them.
func guardsOf(t *testing.T, r *resource.Resource) (out [][2]string) {
	t.Helper()
	for _, c := range load(t, r, new(listenerv3.Listener)).GetFilterChains() {
		for _, f := range c.GetFilters()[:len(c.GetFilters())-1] {
			out = append(out, [2]string{"networkFilter", f.GetName()})
		}
		m := new(hcmv3.HttpConnectionManager)
		if c.GetFilters()[len(c.GetFilters())-1].GetTypedConfig().UnmarshalTo(m) == nil {
			for _, f := range m.GetHttpFilters()[:len(m.GetHttpFilters())-1] {
				out = append(out, [2]string{"httpFilter", f.GetName()})
			}
		}
	}
	return out
}

// TestTemplatesLeaveGuards: no template removes or changes what refuses callers at an inbound:
// permissions, tokens and limits. The listener and its routes stay as they are, and the proxy says so.
func TestTemplatesLeaveGuards(t *testing.T) {
	for protocol, most := range map[string][]string{
		"http": {"httpFilter meshgate", "httpFilter envoy.filters.http.rbac", "httpFilter envoy.filters.http.local_ratelimit"},
		"tcp":  {"networkFilter envoy.filters.network.rbac"},
	} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t)
			w.under(mesh.ModeStrict)
			w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", protocol))
			w.raw(tokensOfBackend)
			w.raw(`
type: RateLimit
mesh: demo
name: limit
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {http: {requests: 3, interval: 1m}}
`)
			before := w.joined("backend-1")
			const inbound = "inbound:127.0.0.2:8080"
			var guards []string
			for _, g := range guardsOf(t, before.Get(resource.Listener, inbound)) {
				guards = append(guards, g[0]+" "+g[1])
			}
			for _, want := range most {
				if !slices.Contains(guards, want) {
					t.Errorf("there is no %s among %q", want, guards)
				}
			}
			already := len(w.planner.Failures("backend-1"))
			for _, g := range append(guards, "networkFilter ", "httpFilter ") {
				sort, name, _ := strings.Cut(g, " ")
				for what, change := range templatesAgainst(sort, name) {
					w.raw("type: ProxyTemplate\nmesh: demo\nname: x\nconf: {imports: [default-proxy], modifications: [{" + change + "}]}")
					w.settle()
					after, failures := w.planner.Set("backend-1"), w.planner.Failures("backend-1")
					if !after.Equal(before) {
						t.Errorf("%s of %s: the proxy has something else than before", what, g)
					}
					if said := fmt.Sprint(failures[already:]); name != "" && (len(failures) != already+1 ||
						!strings.Contains(said, name+" is not for templates to change") && !strings.Contains(said, name+" of an inbound belongs to its rate limits")) {
						t.Errorf("%s of %s: failures are %s", what, g, said)
					}
				}
			}
		})
	}
}

// templatesAgainst are modifications that would take away what a filter does. Without a name they
// are about all filters.
func templatesAgainst(sort, name string) map[string]string {
	if name == "" {
		return map[string]string{"remove": sort + ": {operation: remove}", "remove at inbounds": sort + ": {operation: remove, match: {origin: inbound}}"}
	}
	match := fmt.Sprintf("match: {name: %s, origin: inbound}", name)
	out := map[string]string{
		"remove": fmt.Sprintf("%s: {operation: remove, %s}", sort, match),
		"rename": fmt.Sprintf(`%s: {operation: patch, %s, value: "{name: other}"}`, sort, match),
	}
	if sort == "httpFilter" {
		out["patch"] = fmt.Sprintf(`%s: {operation: patch, %s, value: '{name: %s, typed_config: {"@type": type.googleapis.com/%s, `+
			`token_bucket: {max_tokens: 1000000, tokens_per_fill: 1000000, fill_interval: 1s}, stat_prefix: x}}'}`, sort, match, name,
			"envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit")
	}
	return out
}

// TestTemplatesLeaveTransparentListeners: what takes redirected connections is the last guard, and
// stays whatever a template removes.
func TestTemplatesLeaveTransparentListeners(t *testing.T) {
	w := newWorld(t)
	w.under(mesh.ModeStrict)
	d := transparent("127.0.0.1", "backend", "http")
	d.Networking.TransparentProxying.IPFamilyMode = mesh.IPFamilyDual
	w.put(mesh.Dataplanes, meshName, "backend-1", d)
	before := w.joined("backend-1")
	for _, change := range []string{
		"listener: {operation: remove}", "listener: {operation: remove, match: {name: 'inbound:passthrough:ipv4'}}",
		`listener: {operation: patch, value: "{tcp_backlog_size: 1}"}`,
		"networkFilter: {operation: remove}", "networkFilter: {operation: remove, match: {listenerName: 'inbound:passthrough:ipv6'}}",
		`networkFilter: {operation: addFirst, value: '{name: x, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit, stat_prefix: x, max_connections: 1}}'}`,
	} {
		w.raw("type: ProxyTemplate\nmesh: demo\nname: x\nconf: {imports: [default-proxy], modifications: [{" + change + "}]}")
		w.settle()
		for _, name := range []string{"inbound:passthrough:ipv4", "inbound:passthrough:ipv6"} {
			was, is := before.Get(resource.Listener, name), w.planner.Set("backend-1").Get(resource.Listener, name)
			if was == nil || is == nil || was.Version != is.Version || !slices.Equal(was.Body, is.Body) {
				t.Errorf("%s: %s is not what it was", change, name)
			}
		}
	}
}
