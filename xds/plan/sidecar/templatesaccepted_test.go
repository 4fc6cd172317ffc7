package sidecar_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
)

const (
	typed   = `"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.`
	buffer  = `{"name":"b",` + typed + `http.buffer.v3.Buffer","max_request_bytes":1}}`
	routing = `{"name":"r",` + typed + `http.router.v3.Router"}}`
	limited = `{"name":"c",` + typed + `network.connection_limit.v3.ConnectionLimit","stat_prefix":"c","max_connections":1}}`
	passing = `{"name":"t",` + typed + `network.tcp_proxy.v3.TcpProxy","stat_prefix":"t","cluster":"elsewhere"}}`
)

// manager is a connection manager with some HTTP filters, virtual hosts and other fields.
func manager(filters, hosts, more string) string {
	return `{"name":"m",` + typed + `network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"m","http_filters":[` + filters + `],"route_config":{"name":"t","virtual_hosts":[` + hosts + `]}` + more + `}}`
}

// virtualHost leads some domains to a cluster.
func virtualHost(name, domains, cluster string) string {
	return `{"name":"` + name + `","domains":[` + domains + `],"routes":[{"match":{"prefix":"/"},"route":{"cluster":"` + cluster + `"}}]}`
}

// listening is a listener with some filters.
func listening(name, address, port, filters string) string {
	return `{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","name":"` + name + `","address":{"socket_address":{"address":"` + address + `","port_value":` + port + `}},"filter_chains":[{"filters":[` + filters + `]}]}`
}

// clustered is a cluster with some groups of endpoints.
func clustered(kind, groups string) string {
	return `{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"k","type":"` + kind + `","load_assignment":{"cluster_name":"k","endpoints":[` + groups + `]}}`
}

// endpointsOf is a group of endpoints.
func endpointsOf(ips ...string) string {
	for i, ip := range ips {
		ips[i] = `{"endpoint":{"address":{"socket_address":{"address":"` + ip + `","port_value":80}}}}`
	}
	return `{"lb_endpoints":[` + strings.Join(ips, ",") + `]}`
}

// TestAcceptedTemplatesAreAccepted: of a ProxyTemplate that the API accepts, every supported Envoy
// takes each resource.
func TestAcceptedTemplatesAreAccepted(t *testing.T) {
	const native, value = "conf.resources[0].resource: native Envoy resource is not valid: ", "conf.modifications[0].virtualHost.value: native Envoy resource is not valid: "
	host := virtualHost("v", `"*"`, "elsewhere")
	for _, c := range []struct {
		name string
		// add are resources, at is a virtual host to add.
		add []string
		at  string
		// want are the violations.
		want []string
	}{
		{"a route to a cluster that is not there", []string{listening("l", "10.0.0.1", "9001", manager(routing, host, ""))}, "", nil},
		{"a domain twice", nil, virtualHost("v", `"a","a"`, "backend"), []string{value + "domains[1]: it is there already"}},
		{"a domain twice in a table", []string{listening("l", "10.0.0.1", "9001", manager(routing, virtualHost("v", `"a"`, "k")+","+virtualHost("w", `"b","a"`, "k"), ""))}, "", []string{native + "filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[1].domains[1]: it is there already"}},
		{"a virtual host twice in a table", []string{listening("l", "10.0.0.1", "9001", manager(routing, virtualHost("v", `"a"`, "k")+","+virtualHost("v", `"b"`, "k"), ""))}, "", nil},
		{"HTTP/3", []string{listening("l", "10.0.0.1", "9001", manager(routing, host, `,"codec_type":"HTTP3"`))}, "", []string{native + "filter_chains[0].filters[0].typed_config.codec_type: must be one of AUTO, HTTP1, HTTP2"}},
		{"HTTP/2", []string{listening("l", "10.0.0.1", "9001", manager(routing, host, `,"codec_type":"HTTP2"`))}, "", nil},
		{"nothing that forwards", []string{listening("l", "10.0.0.1", "9001", limited)}, "", []string{native + "filter_chains[0].filters[0]: the last filter must be one that forwards"}},
		{"forwarding first", []string{listening("l", "10.0.0.1", "9001", passing+","+limited)}, "", []string{native + "filter_chains[0].filters[0]: a filter that forwards must be the last one"}},
		{"forwarding last", []string{listening("l", "10.0.0.1", "9001", limited+","+passing)}, "", nil},
		{"forwarding twice", []string{listening("l", "10.0.0.1", "9001", passing+","+passing)}, "", []string{native + "filter_chains[0].filters[0]: a filter that forwards must be the last one"}},
		{"no HTTP filter", []string{listening("l", "10.0.0.1", "9001", manager("", host, ""))}, "", nil},
		{"no router", []string{listening("l", "10.0.0.1", "9001", manager(buffer, host, ""))}, "", []string{native + "filter_chains[0].filters[0].typed_config.http_filters[0]: the last filter must be one that forwards"}},
		{"router first", []string{listening("l", "10.0.0.1", "9001", manager(routing+","+buffer, host, ""))}, "", []string{native + "filter_chains[0].filters[0].typed_config.http_filters[0]: a filter that forwards must be the last one"}},
		{"router last", []string{listening("l", "10.0.0.1", "9001", manager(buffer+","+routing, host, ""))}, "", nil},
		{"a filter twice", []string{listening("l", "10.0.0.1", "9001", manager(buffer+","+buffer+","+routing, host, ""))}, "", nil},
		{"a limit without tokens", []string{listening("l", "10.0.0.1", "9001", manager(`{"name":"x",`+typed+`http.local_ratelimit.v3.LocalRateLimit","stat_prefix":"x"}},`+routing, host, ""))}, "", nil},
		{"two listeners at an address", []string{listening("l", "10.0.0.1", "9001", passing), listening("l2", "10.0.0.1", "9001", passing)}, "", []string{"conf: l and l2 listen on the same port"}},
		{"two listeners at a port", []string{listening("l", "10.0.0.1", "9001", passing), listening("l2", "0.0.0.0", "9001", passing)}, "", []string{"conf: l and l2 listen on the same port"}},
		{"both families", []string{listening("l", "::", "9001", passing), listening("l2", "0.0.0.0", "9001", passing)}, "", nil},
		{"two ports", []string{listening("l", "10.0.0.1", "9001", passing), listening("l2", "10.0.0.1", "9002", passing)}, "", nil},
		{"one endpoint", []string{clustered("LOGICAL_DNS", endpointsOf("10.0.0.9"))}, "", nil},
		{"several endpoints", []string{clustered("STRICT_DNS", endpointsOf("10.0.0.9", "10.0.0.8")+","+endpointsOf("10.0.0.7"))}, "", nil},
		{"no endpoints", []string{clustered("STRICT_DNS", "")}, "", nil},
		{"several logical endpoints", []string{clustered("LOGICAL_DNS", endpointsOf("10.0.0.9", "10.0.0.8"))}, "", []string{native + "load_assignment.endpoints: a cluster of type LOGICAL_DNS has exactly one endpoint"}},
		{"several logical groups", []string{clustered("LOGICAL_DNS", endpointsOf("10.0.0.9")+","+endpointsOf("10.0.0.8"))}, "", []string{native + "load_assignment.endpoints: a cluster of type LOGICAL_DNS has exactly one endpoint"}},
		{"no logical endpoint", []string{clustered("LOGICAL_DNS", "")}, "", []string{native + "load_assignment.endpoints: a cluster of type LOGICAL_DNS has exactly one endpoint"}},
		{"an empty logical group", []string{clustered("LOGICAL_DNS", `{}`)}, "", []string{native + "load_assignment.endpoints: a cluster of type LOGICAL_DNS has exactly one endpoint"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := templateOf(t, c.add, c.at)
			var got []string
			for _, v := range proxytemplate.Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if got != nil {
				return
			}
			w := newWorld(t)
			w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
			w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend"))
			w.put(proxytemplate.Kind, meshName, "x", spec)
			set := w.joined("web-1")
			for _, f := range w.planner.Failures("web-1") {
				t.Errorf("%s: %v", f.Cell, f.Err)
			}
			plantest.Admitted(t, set)
			validate(t, set)
		})
	}
}

// templateOf is a template that adds resources, and a virtual host to every table.
func templateOf(t *testing.T, add []string, host string) any {
	t.Helper()
	conf := &proxytemplate.Conf{Imports: []string{"default-proxy"}}
	for _, text := range add {
		conf.Resources = append(conf.Resources, proxytemplate.Resource{Name: "a", Version: "b", Resource: text})
	}
	if host != "" {
		conf.Modifications = []proxytemplate.Modification{{VirtualHost: &proxytemplate.Change{Operation: "add", Value: host}}}
	}
	body, err := json.Marshal(map[string]any{"type": "ProxyTemplate", "mesh": meshName, "name": "x", "conf": conf})
	if err != nil {
		t.Fatal(err)
	}
	_, spec, err := model.DecodeDocument(proxytemplate.Kind, body)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestStoredTemplatesHoldNothingUp: what was stored before it was refused is left out, so that
// Envoy takes everything else of the route table.
func TestStoredTemplatesHoldNothingUp(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend"))
	w.put(proxytemplate.Kind, meshName, "x", templateOf(t, nil, virtualHost("v", `"a","a"`, "backend")))
	set, said := w.joined("web-1"), ""
	for _, f := range w.planner.Failures("web-1") {
		said += f.Err.Error()
	}
	if !strings.Contains(said, "virtual host v has a domain twice") {
		t.Errorf("the proxy says %q", said)
	}
	validate(t, set)
}
