package proxytemplate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

func violations(t *testing.T, fields string) (got []string) {
	t.Helper()
	_, spec := policytest.Decode(t, Kind, []byte(`{"type":"ProxyTemplate","mesh":"demo","name":"x",`+fields+`}`))
	for _, v := range Kind.Document.Validate(spec) {
		got = append(got, v.Path+": "+v.Message)
	}
	return got
}

// buffered is a filter.
const buffered = `{name: a, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 1}}`

const valid1 = `name: c\ntype: STRICT_DNS\nload_assignment: {cluster_name: c}`

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"everything", `"conf":{"imports":["default-proxy"]}`, nil},
		{"no conf", `"selectors":[]`, []string{"conf: has to be defined"}},
		{"selectors", `"selectors":[{"match":{"version":"v1"}}],"conf":{}`, []string{`selectors[0].match: mandatory tag "mesh.io/service" is missing`}},
		{"imports", `"conf":{"imports":["","other"]}`, []string{"conf.imports[0]: cannot be empty", "conf.imports[1]: profile not found. Available profiles: default-proxy,egress-proxy,gateway-proxy,ingress-proxy"}},
		{"resources", `"conf":{"resources":[{}]}`, []string{"conf.resources[0].name: cannot be empty", "conf.resources[0].version: cannot be empty", "conf.resources[0].resource: cannot be empty"}},
		{"no type", `"conf":{"resources":[{"name":"a","version":"b","resource":"name: c"}]}`, []string{`conf.resources[0].resource: native Envoy resource is not valid: (line 1:1): missing "@type" field`}},
		{"no such field", `"conf":{"modifications":[{"cluster":{"operation":"patch","value":"none: 1"}}]}`, []string{`conf.modifications[0].cluster.value: native Envoy resource is not valid: (line 1:2): unknown field "none"`}},
		{"operations", `"conf":{"modifications":[{"cluster":{"operation":"addFirst"}},{"networkFilter":{"operation":"add"}},{"virtualHost":{}}]}`, []string{
			`conf.modifications[0].cluster.operation: invalid operation. Available operations: "add", "patch", "remove"`,
			`conf.modifications[1].networkFilter.operation: invalid operation. Available operations: "addFirst", "addLast", "addBefore", "addAfter", "patch", "remove"`,
			`conf.modifications[2].virtualHost.operation: invalid operation. Available operations: "add", "patch", "remove"`,
		}},
		{"add with a match", `"conf":{"modifications":[{"listener":{"operation":"add","match":{},"value":"name: l\naddress: {socket_address: {address: 10.0.0.1, port_value: 1}}\nfilter_chains: [{}]"}}]}`, []string{"conf.modifications[0].listener.match: cannot be defined"}},
		{"filters by name", `"conf":{"modifications":[{"httpFilter":{"operation":"addBefore","value":"` + buffered + `"}},{"httpFilter":{"operation":"addAfter","value":"` + buffered + `"}},{"networkFilter":{"operation":"patch","value":"name: a"}}]}`, []string{
			"conf.modifications[0].httpFilter.match.name: cannot be empty. You need to pick a filter before which this one will be added",
			"conf.modifications[1].httpFilter.match.name: cannot be empty. You need to pick a filter after which this one will be added",
			"conf.modifications[2].networkFilter.match.name: cannot be empty",
		}},
		{"two sorts", `"conf":{"modifications":[{"cluster":{"operation":"remove"},"listener":{"operation":"remove"}},{}]}`, []string{
			"conf.modifications[0]: must have exactly one of cluster, listener, networkFilter, httpFilter, virtualHost",
			"conf.modifications[1]: must have exactly one of cluster, listener, networkFilter, httpFilter, virtualHost",
		}},
		{"matches of others", `"conf":{"modifications":[{"cluster":{"operation":"remove","match":{"tags":{"a":"b"},"listenerName":"x","origin":"admin"}}},{"virtualHost":{"operation":"remove","match":{"origin":"inbound"}}}]}`, []string{
			"conf.modifications[0].cluster.match.origin: must be one of contributed, inbound, outbound",
			"conf.modifications[0].cluster.match.tags: cannot be defined", "conf.modifications[0].cluster.match.listenerName: cannot be defined",
			"conf.modifications[1].virtualHost.match.origin: " + textOutbound,
		}},
		{"no value", `"conf":{"modifications":[{"cluster":{"operation":"patch"}}]}`, []string{"conf.modifications[0].cluster.value: native Envoy resource is not valid: it is empty"}},
		{"twice", `"conf":{"modifications":[{"cluster":{"operation":"add","value":"` + valid1 + `"}},{"cluster":{"operation":"add","value":"` + valid1 + `"}}]}`, []string{"conf: cluster c is made twice"}},
		{"many", `"conf":{"modifications":[` + strings.TrimSuffix(strings.Repeat(`{"cluster":{"operation":"remove"}},`, 65), ",") + `]}`, []string{"conf.modifications: must have at most 64 elements"}},
		{"much", `"conf":{"modifications":[{"cluster":{"operation":"patch","value":"` + strings.Repeat("#", maxTexts+1) + `"}}]}`, []string{"conf: resources and modifications must not have more than 32768 bytes together"}},
		{"aliases", `"conf":{"modifications":[{"cluster":{"operation":"patch","value":"a: &a 1\nb: *a"}}]}`, []string{"conf.modifications[0].cluster.value: native Envoy resource is not valid: anchors and aliases of YAML are not taken here: write out what they stand for"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, violations(t, c.fields)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatTemplatesCannotSet: whatever would reach the machine of a proxy, open what the mesh
// closes, or have Envoy wait for ever is refused, with the path of the field.
func TestWhatTemplatesCannotSet(t *testing.T) {
	const (
		manager = `{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",`
		doors   = `{"name":"l","address":{"socket_address":{"address":"10.0.0.1","port_value":1}},"filter_chains":[{"filters":[{"name":"f","typed_config":`
	)
	listener := func(config string) string { return doors + config + `}]}]}` }
	cluster := func(fields string) string {
		return `{"name":"c","type":"STRICT_DNS","load_assignment":{"cluster_name":"c"}` + fields + `}`
	}
	endpoint := func(address string) string {
		return `{"name":"c","type":"STRICT_DNS","load_assignment":{"cluster_name":"c","endpoints":[{"lb_endpoints":[{"endpoint":{"address":` + address + `}}]}]}}`
	}
	socket := func(ip string) string { return `{"socket_address":{"address":"` + ip + `","port_value":80}}` }
	for _, c := range []struct{ what, sort, operation, value, want string }{
		{"a health check", "cluster", "add", cluster(`,"health_checks":[{"timeout":"100000s","interval":"1s","unhealthy_threshold":1,"healthy_threshold":1,"tcp_health_check":{}}]`), "health_checks: a template cannot set this"},
		{"a health check, patched", "cluster", "patch", `{"health_checks":[]}`, "it is valid and does nothing"},
		{"assignments from elsewhere", "cluster", "add", `{"name":"c","eds_cluster_config":{"eds_config":{"ads":{}}}}`, "eds_cluster_config: a template cannot set this"},
		{"fixed addresses", "cluster", "add", strings.Replace(cluster(""), "STRICT_DNS", "STATIC", 1), "type: must be one of STRICT_DNS, LOGICAL_DNS"},
		{"another certificate", "cluster", "patch", `{"transport_socket":{"name":"x"}}`, "transport_socket: a template cannot set this"},
		{"rings", "cluster", "add", cluster(`,"lb_policy":"RING_HASH"`), "lb_policy: must be one of ROUND_ROBIN, LEAST_REQUEST, RANDOM"},
		{"no buffer limit", "cluster", "patch", `{"per_connection_buffer_limit_bytes":0}`, "per_connection_buffer_limit_bytes: must be in the range [4096, 1048576]"},
		{"a long connect", "cluster", "patch", `{"connect_timeout":"3600s"}`, "connect_timeout: must be in the range [1ms, 1m0s]"},
		{"the machine", "cluster", "add", endpoint(socket("127.0.0.1")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must not be of this machine, link-local, multicast, or where clouds tell credentials"},
		{"the machine, in six", "cluster", "add", endpoint(socket("::ffff:127.0.0.1")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must not be of this machine, link-local, multicast, or where clouds tell credentials"},
		{"the machine by name", "cluster", "add", endpoint(socket("a.localhost")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must be an IP address"},
		{"a number that is an address", "cluster", "add", endpoint(socket("2130706433")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must be an IP address"},
		{"a zone", "cluster", "add", endpoint(socket("::%1")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must have no zone"},
		{"metadata of clouds", "cluster", "add", endpoint(socket("169.254.169.254")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must not be of this machine, link-local, multicast, or where clouds tell credentials"},
		{"a socket", "cluster", "add", endpoint(`{"pipe":{"path":"/run/x"}}`), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: must have a socket_address"},
		{"a name of the mesh", "cluster", "add", strings.Replace(cluster(""), `"c","type"`, `"@localhost:80","type"`, 1), `name: names with "@" are those of the mesh`},
		{"a listener in place of an inbound", "listener", "add", strings.Replace(listener(manager+`"stat_prefix":"x"}`), `"l"`, `"inbound:10.0.0.1:80"`, 1), `name: names with "inbound:" are those of the mesh`},
		{"listener filters", "listener", "patch", `{"listener_filters":[{"name":"x"}]}`, "listener_filters: a template cannot set this"},
		{"an access log", "listener", "add", listener(manager + `"stat_prefix":"x","access_log":[{"name":"f"}]}`), "filter_chains[0].filters[0].typed_config.access_log: a template cannot set this"},
		{"routes from elsewhere", "listener", "add", listener(manager + `"stat_prefix":"x","rds":{"route_config_name":"none","config_source":{"ads":{},"initial_fetch_timeout":"0s"}}}`), "filter_chains[0].filters[0].typed_config.rds: a template cannot set this"},
		{"the workload", "listener", "add", listener(`{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","stat_prefix":"x","cluster":"@localhost:9080"}`), "filter_chains[0].filters[0].typed_config.cluster: must be a service or a cluster of the template"},
		{"another extension", "httpFilter", "addFirst", `{"name":"x","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"}}`, "typed_config: its type must be one of " + strings.Join(httpFilters, ", ")},
		{"another end of a chain", "networkFilter", "addFirst", `{"name":"x","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","stat_prefix":"x","cluster":"c"}}`, "a filter that forwards is not added: there is one already"},
		{"another router", "httpFilter", "addFirst", `{"name":"x","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}`, "a filter that forwards is not added: there is one already"},
		{"a variable in a name", "networkFilter", "addFirst", `{"name":"%ENVIRONMENT(A)%","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit","stat_prefix":"a","max_connections":1}}`, "name: must not contain %ENVIRONMENT, with which proxies read their environment"},
		{"a cluster of the agent", "httpFilter", "addFirst", `{"name":"@authz","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer","max_request_bytes":1}}`, "name: must not be @authz, which is a cluster of the proxy's own"},
		{"no configuration", "networkFilter", "addFirst", `{"name":"x"}`, "a filter needs a typed_config"},
		{"no connections", "networkFilter", "addFirst", `{"name":"x","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit","stat_prefix":"a"}}`, "typed_config.max_connections: it must be set"},
		{"a type that Envoy does not read", "httpFilter", "addFirst", `{"name":"x","typed_config":{"@type":"envoy.extensions.filters.http.buffer.v3.Buffer","max_request_bytes":1}}`, "typed_config: its type must be one of " + strings.Join(httpFilters, ", ")},
		{"a life", "networkFilter", "patch", `{"typed_config":` + manager + `"common_http_protocol_options":{"max_connection_duration":"100s"}}}`, "typed_config.common_http_protocol_options.max_connection_duration: a template cannot set this"},
		{"another way to choose", "cluster", "patch", `{"lb_policy":"RANDOM"}`, "lb_policy: a template cannot set this"},
		{"descriptors without end", "cluster", "add", cluster(`,"circuit_breakers":{"thresholds":[{"max_connections":100000}]}`), "circuit_breakers.thresholds[0].max_connections: must be in the range [0, 16384]"},
		{"a name that leads anywhere", "cluster", "add", endpoint(socket("ip6-localhost")), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: socket_address.address: must be an IP address"},
		{"the client's address, in a header", "virtualHost", "patch", `{"request_headers_to_remove":["Forwarded"]}`, "request_headers_to_remove[0]: only proxies write this header"},
		{"the client's address", "networkFilter", "patch", `{"typed_config":` + manager + `"use_remote_address":true}}`, "typed_config.use_remote_address: a template cannot set this"},
		{"paths as they are", "networkFilter", "patch", `{"typed_config":` + manager + `"normalize_path":false}}`, "typed_config.normalize_path: a template cannot set this"},
		{"mirrors", "virtualHost", "add", `{"name":"x","domains":["x"],"routes":[{"match":{"prefix":"/"},"route":{"cluster":"c","request_mirror_policies":[{"cluster":"c"}]}}]}`, "routes[0].route.request_mirror_policies: a template cannot set this"},
		{"what the filter does", "virtualHost", "patch", `{"typed_per_filter_config":{"a":{"@type":"type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer"}}}`, "typed_per_filter_config: a template cannot set this"},
		{"variables", "virtualHost", "patch", `{"request_headers_to_add":[{"header":{"key":"a","value":"%ENVIRONMENT(HOME)%"}}]}`, "request_headers_to_add[0].header.value: must have no %, with which Envoy's own variables begin"},
		{"who calls", "virtualHost", "patch", `{"request_headers_to_add":[{"header":{"key":"X-Forwarded-Client-Cert","value":"a"}}]}`, "request_headers_to_add[0].header.key: only proxies write this header"},
		{"a consumer", "virtualHost", "patch", `{"request_headers_to_add":[{"header":{"key":"x-consumer-id","value":"a"}}]}`, "request_headers_to_add[0].header.key: only proxies write this header"},
		{"the host", "virtualHost", "patch", `{"request_headers_to_add":[{"header":{"key":":authority","value":"a"}}]}`, "request_headers_to_add[0].header.key: host header and HTTP/2 pseudo-headers are not allowed to be modified"},
		{"many headers", "virtualHost", "patch", `{"request_headers_to_remove":["` + strings.Repeat(`a","`, 16) + `b"]}`, "request_headers_to_remove: it has 17 elements, and may have 16"},
	} {
		t.Run(c.what, func(t *testing.T) {
			value, _ := json.Marshal(c.value)
			match := ""
			if c.sort != "virtualHost" && c.operation == "patch" {
				match = `"match":{"name":"x"},`
			}
			got := violations(t, `"conf":{"modifications":[{"`+c.sort+`":{"operation":"`+c.operation+`",`+match+`"value":`+string(value)+`}}]}`)
			if c.want == "it is valid and does nothing" {
				if got != nil {
					t.Error(got)
				}
				return
			}
			want := "conf.modifications[0]." + c.sort + ".value: native Envoy resource is not valid: " + c.want
			if len(got) != 1 || got[0] != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}
