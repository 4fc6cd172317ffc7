package mesh_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// wrong decodes the members of a document and says what is wrong with them, one line each.
func wrong(t *testing.T, k *model.Kind, body string) string {
	t.Helper()
	_, spec, err := model.DecodeDocument(k, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if k.Document.Default != nil {
		k.Document.Default(spec)
	}
	var out []string
	for _, v := range k.Document.Validate(spec) {
		out = append(out, v.Path+": "+v.Message)
	}
	return strings.Join(out, "\n")
}

// TestMeshGatewayViolations has the texts that clients compare.
func TestMeshGatewayViolations(t *testing.T) {
	const selected = `"selectors":[{"match":{"mesh.io/service":"edge"}}]`
	listeners := func(ls string) string { return `{` + selected + `,"conf":{"listeners":[` + ls + `]}}` }
	for name, c := range map[string]struct{ body, want string }{
		"accepted": {`{` + selected + `,"tags":{"env":"prod"},"conf":{"listeners":[
			{"port":8080,"protocol":"HTTP","hostname":"foo.example.com","tags":{"port":"http/8080"},"resources":{"connectionLimit":100}},
			{"port":8443,"protocol":"HTTPS","hostname":"*.example.com","tls":{"mode":"TERMINATE","certificates":[{"secret":"my-cert"}]}},
			{"port":9000,"protocol":"TCP"},{"port":9443,"protocol":"TLS","hostname":"x","tls":{"mode":"PASSTHROUGH"}}]}}`, ""},
		"nothing":      {`{}`, "selectors: must have at least one element\nconf: cannot be empty"},
		"no listeners": {`{"selectors":[{"match":{"a":"b"}}],"conf":{}}`, "selectors[0].match: mandatory tag \"mesh.io/service\" is missing\nconf.listeners: cannot be empty"},
		"own tags": {`{` + selected + `,"tags":{"mesh.io/service":"x"},"conf":{"listeners":[{"port":1,"protocol":"TCP","tags":{"mesh.io/protocol":"x"}}]}}`,
			"tags[\"mesh.io/service\"]: tag name must not be \"mesh.io/service\"\nconf.listeners[0].tags[\"mesh.io/protocol\"]: tag name must not be \"mesh.io/protocol\""},
		"bad names": {listeners(`{"port":0,"protocol":"HTTP","hostname":"a..b"},{"port":70000,"hostname":"*."},{"port":80,"protocol":"HTTP","hostname":"A.b"}`),
			"conf.listeners[0].hostname: invalid hostname\nconf.listeners[0].port: port must be in the range [1, 65535]\n" +
				"conf.listeners[1].hostname: invalid wildcard domain\nconf.listeners[1].port: port must be in the range [1, 65535]\nconf.listeners[1].protocol: cannot be empty\n" +
				"conf.listeners[2].hostname: invalid hostname"},
		"tls": {listeners(`{"port":1,"protocol":"HTTPS"},{"port":2,"protocol":"HTTPS","tls":{"mode":"PASSTHROUGH"}},{"port":3,"protocol":"HTTPS","tls":{}},{"port":4,"protocol":"TLS","tls":{"mode":"TERMINATE"}},
			{"port":5,"protocol":"TLS","tls":{"mode":"TERMINATE","certificates":[{"secret":"a"},{"secret":"b"},{"secret":"c"}]}},{"port":6,"protocol":"HTTP","tls":{"mode":"TERMINATE","certificates":[{"inline":"AA=="},{}]}}`),
			"conf.listeners[0].tls: cannot be empty\nconf.listeners[1].tls.mode: mode is not supported on HTTPS listeners\nconf.listeners[2].tls.mode: cannot be empty\n" +
				"conf.listeners[3].tls.certificates: cannot be empty in TLS termination mode\nconf.listeners[4].tls.certificates: cannot have more than 2 certificates\n" +
				"conf.listeners[5].tls: only listeners of HTTPS and TLS have it\n" +
				"conf.listeners[5].tls.certificates[0]: is not supported here: name a secret of the mesh, which can be exchanged without closing connections\n" +
				"conf.listeners[5].tls.certificates[1]: data source cannot be empty"},
		"one port": {listeners(`{"port":1,"protocol":"HTTP","resources":{"connectionLimit":1}},{"port":1,"protocol":"TCP"},{"port":1,"protocol":"HTTP","hostname":"a","resources":{"connectionLimit":2}}`),
			"conf.listeners[1]: protocol conflicts with other listeners on this port\nconf.listeners[1]: multiple listeners for hostname on this port\n" +
				"conf.listeners[2]: protocol conflicts with other listeners on this port\nconf.listeners[2].resources.connectionLimit: conflicting values for this port"},
		"not here": {listeners(`{"port":1,"protocol":"UDP"},{"port":2,"protocol":"HTTP","crossMesh":true},{"port":3,"protocol":"TCP","hostname":"a"},{"port":4,"protocol":"HTTPS","crossMesh":true,"tls":{"mode":"TERMINATE"}}`),
			"conf.listeners[0].protocol: UDP is not supported. Use TCP, TLS, HTTP or HTTPS\n" +
				"conf.listeners[2].hostname: TCP has no host names: leave it out, or use TLS\n" +
				"conf.listeners[3].protocol: protocol is not supported with crossMesh\nconf.listeners[3].tls: must be empty with crossMesh"},
		"not across meshes": {`{"selectors":[{"match":{"mesh.io/service":"a"}},{"match":{"mesh.io/service":"b"}}],"conf":{"listeners":[
			{"port":1,"protocol":"TCP","crossMesh":true},{"port":2,"protocol":"TLS","crossMesh":true},{"port":3,"protocol":"HTTP","crossMesh":true,"hostname":"backend.mesh"},
			{"port":4,"protocol":"HTTP","crossMesh":true,"hostname":"*.localhost"},{"port":3,"protocol":"HTTP","hostname":"a.example"},{"port":5,"protocol":"HTTP","crossMesh":true,"hostname":"a.example"}]}}`,
			"selectors[1]: there can be at most one selector\n" +
				"conf.listeners[0].protocol: protocol is not supported with crossMesh\nconf.listeners[1].protocol: protocol is not supported with crossMesh\n" +
				"conf.listeners[2].hostname: must not be localhost or end in .mesh with crossMesh: each mesh has such names of its own\n" +
				"conf.listeners[3].hostname: must not be localhost or end in .mesh with crossMesh: each mesh has such names of its own\n" +
				"conf.listeners[4]: crossMesh conflicts with other listeners on this port"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, wrong(t, mesh.MeshGateways, c.body)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMeshGatewayRouteViolations has the texts that clients compare; the paths of rules are in
// snake_case.
func TestMeshGatewayRouteViolations(t *testing.T) {
	const backend = `"backends":[{"weight":1,"destination":{"mesh.io/service":"backend"}}]`
	rule := func(members string) string {
		return `{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"rules":[{` + members + `}]}}}`
	}
	prefixed := func(members string) string {
		return rule(`"matches":[{"path":{"match":"PREFIX","value":"/a"}}],` + members)
	}
	const at = "conf.http.rules[0]."
	const unlike = "must be a path as it is compared: without empty segments, . and .."
	list := func(name, one string) string { return `"` + name + `":[` + strings.Repeat(one+`,`, 63) + one + `]` }
	many64 := list("backends", `{"destination":{"mesh.io/service":"b"}}`)
	many := `{` + list("matches", `{"method":"GET"}`) + `,` + many64 + `}`
	for name, c := range map[string]struct{ body, want string }{
		"accepted": {`{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"hostnames":["foo.example.com"],"rules":[{
			"matches":[{"path":{"match":"PREFIX","value":"/"},"method":"GET","headers":[{"match":"REGEX","name":"x","value":".*"},{"match":"PRESENT","name":"y"}],
				"queryParameters":[{"match":"EXACT","name":"q","value":"1"}]}],
			"filters":[{"requestHeader":{"set":[{"name":"a","value":"b"}],"add":[{"name":"c","value":"d"}],"remove":["e"]}},
				{"mirror":{"backend":{"weight":1,"destination":{"mesh.io/service":"m"}},"percentage":1}},{"rewrite":{"replacePrefixMatch":"/x"}},
				{"responseHeader":{"add":[{"name":"r","value":"v"}]}}],` + backend + `}]}}}`, ""},
		"accepted for TCP":  {`{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"tcp":{"rules":[{` + backend + `}]}}}`, ""},
		"accepted redirect": {prefixed(`"filters":[{"redirect":{"scheme":"https","hostname":"a.example","port":443,"statusCode":301,"path":{"replaceFull":"/b"}}}]`), ""},
		"nothing":           {`{}`, "selectors: must have at least one element\nconf: cannot be empty"},
		"no rules":          {`{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"hostnames":["","a_..","*.b"]},"tcp":{}}}`, "conf.tcp.rules: cannot be empty\nconf.http.hostnames[0]: cannot be empty\nconf.http.hostnames[1]: invalid hostname\nconf.http.rules: cannot be empty"},
		"empty rule":        {rule(``), at + "matches: cannot be empty\n" + at + "backends: cannot be empty"},
		"empty matches": {rule(`"matches":[{},{"path":{"value":"a"}},{"path":{"match":"REGEX"}},{"path":{"match":"REGEX","value":"("}},{"path":{"match":"PREFIX","value":"/a?b"}},{"method":"CONNECT"}],` + backend),
			at + "matches[0]: cannot be empty\n" + at + "matches[1].value: must be an absolute path\n" + at + "matches[2].value: cannot be empty\n" +
				at + "matches[3].value: must be a regular expression (RE2)\n" + at + "matches[4].value: must be a path without query and fragment\n" + at + "matches[5].method: no route answers requests with this method"},
		"matches": {rule(`"matches":[{"headers":[{},{"name":"a","match":"ABSENT","value":"b"},{"name":":path","value":"x"}],"queryParameters":[{}]}],` + backend),
			at + "matches[0].headers[0].name: cannot be empty\n" + at + "matches[0].headers[0].value: cannot be empty\n" + at + "matches[0].headers[1].value: cannot be set\n" +
				at + "matches[0].headers[2].name: HTTP/2 pseudo-headers are not allowed to be modified\n" +
				at + "matches[0].query_parameters[0].name: cannot be empty\n" + at + "matches[0].query_parameters[0].value: cannot be empty"},
		"header filters": {prefixed(`"filters":[{},{"requestHeader":{}},{"requestHeader":{"set":[{}],"remove":[""],"add":[{"name":"host","value":"x"}]}},{"responseHeader":{"set":[{"name":"a b","value":"%ENVIRONMENT(X)%"}]}}],` + backend),
			at + "filters[0]: must have exactly one member\n" + at + "filters[1].request_header: cannot be empty\n" +
				at + "filters[2].request_header.set[0].name: cannot be empty\n" + at + "filters[2].request_header.set[0].value: cannot be empty\n" +
				at + "filters[2].request_header.add[0].name: of the host there can be one value: use set\n" + at + "filters[2].request_header.remove[0]: cannot be empty\n" +
				at + "filters[3].response_header.set[0].name: must be a header name"},
		"the host": {prefixed(`"filters":[{"requestHeader":{"set":[{"name":"Host","value":"%REQ(x)%"},{"name":"host","value":"a b"},{"name":"Host","value":"a.example:80"},{"name":"Host","value":"[::1]"}]}},
			{"responseHeader":{"set":[{"name":"Host","value":"a"}],"add":[{"name":":authority","value":"a"}],"remove":["host"]}}],` + backend),
			at + "filters[0].request_header.set[0].value: must be a host name or an address, perhaps with a port\n" + at + "filters[0].request_header.set[1].value: must be a host name or an address, perhaps with a port\n" +
				at + "filters[1].response_header.set[0].name: only requests have a host\n" + at + "filters[1].response_header.add[0].name: only requests have a host\n" +
				at + "filters[1].response_header.remove[0]: only requests have a host"},
		"too long": {prefixed(`"filters":[{"requestHeader":{"set":[{"name":"a","value":"` + strings.Repeat("v", 8193) + `"}]}},{"rewrite":{"replaceFull":"/` + strings.Repeat("p", 1024) + `"}}],` + backend),
			at + "filters[0].request_header.set[0].value: must not have more than 8192 bytes\n" + at + "filters[1].rewrite.replaceFull: must not have more than 1024 bytes"},
		"too long matches": {rule(`"matches":[{"path":{"value":"/` + strings.Repeat("p", 1024) + `"}},{"queryParameters":[{"name":"` + strings.Repeat("q", 1025) + `","value":"a"}]},
			{"headers":[{"name":"` + strings.Repeat("h", 1025) + `","value":"` + strings.Repeat("v", 1025) + `"}]},{"headers":[` + strings.Repeat(`{"name":"a","value":"b"},`, 64) + `{"name":"a","value":"b"}]},{"path":{"match":"REGEX","value":"a{1000}"}}],` + backend),
			at + "matches[0].value: must not have more than 1024 bytes\n" + at + "matches[1].query_parameters[0].name: must not have more than 1024 bytes\n" +
				at + "matches[2].headers[0].name: must not have more than 1024 bytes\n" + at + "matches[2].headers[0].value: must not have more than 1024 bytes\n" +
				at + "matches[3]: must not have more than 64 headers or query parameters\n" + at + "matches[4].value: is too large an expression: proxies refuse it"},
		"paths that no request has": {rule(`"matches":[{"path":{"match":"PREFIX","value":"//"}},{"path":{"value":"/a//b"}},{"path":{"match":"PREFIX","value":"/a/../b"}},{"path":{"match":"PREFIX","value":"/a/./"}},{"path":{"match":"PREFIX","value":"/a//"}},
			{"path":{"match":"PREFIX","value":"/a/"}},{"path":{"value":"/a/"}},{"path":{"value":"/"}},{"path":{"value":"/a.b/..c"}}],` + backend),
			at + "matches[0].value: " + unlike + "\n" + at + "matches[1].value: " + unlike + "\n" + at + "matches[2].value: " + unlike + "\n" + at + "matches[3].value: " + unlike + "\n" + at + "matches[4].value: " + unlike},
		"too much together": {`{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"rules":[` + strings.Repeat(many+`,`, 64) + many + `]},"tcp":{"rules":[` + strings.Repeat(`{`+many64+`},`, 64) + `{` + many64 + `}]}}}`,
			"conf.tcp.rules: must not have more than 4096 backends and filters together\n" +
				"conf.http.rules: must not have more than 4096 matches together\nconf.http.rules: must not have more than 4096 backends and filters together"},
		"host of the backend": {prefixed(`"filters":[{"rewrite":{"hostToBackendHostname":true}},{"requestHeader":{"set":[{"name":"Host","value":"x"}]}}],` + backend),
			at + "filters[1].request_header.set[0].name: cannot modify 'host' header, when route has set 'rewrite.host_to_backend_hostname' option"},
		"redirect": {prefixed(`"filters":[{"redirect":{"port":0,"statusCode":309}},{"requestHeader":{"remove":["a"]}}],` + backend),
			at + "filters[0].redirect.port: port must be in the range [1, 65535]\n" + at + "filters[0].redirect.status_code: must be in the range [300, 308]\n" +
				at + "filters: redirects cannot be used with other filters\n" + at + "backends: must be empty when using redirect filters"},
		"mirror": {prefixed(`"filters":[{"mirror":{}},{"mirror":{"percentage":101,"backend":{"destination":{"a":"b"}}}}],` + backend),
			at + "filters[0].mirror.percentage: cannot be empty\n" + at + "filters[0].mirror.backend: cannot be empty\n" +
				at + "filters[1].mirror.percentage: has to be in [0.0 - 100.0] range\n" + at + "filters[1].mirror.backend.destination: mandatory tag \"mesh.io/service\" is missing"},
		"rewrite": {rule(`"matches":[{"method":"GET"}],"filters":[{"rewrite":{"replacePrefixMatch":"/x"}},{"rewrite":{"replaceFull":"x"}},{"rewrite":{}}],` + backend),
			at + "filters[0].rewrite.replacePrefixMatch: cannot be used without a match on path prefix\n" + at + "filters[1].rewrite.replaceFull: must be an absolute path\n" +
				at + "filters[2].rewrite: cannot be empty\n" + at + "filters: only one of each sort is possible, except for headers and mirrors"},
		"backends": {prefixed(`"backends":[{"weight":1},{"weight":4294967295,"destination":{"mesh.io/service":"*"}}]`),
			at + "backends[0].destination: must have at least one tag\n" + at + "backends[0].destination: mandatory tag \"mesh.io/service\" is missing\n" +
				at + "backends[1].destination: a backend is named by its tags: \"*\" names none\n" + at + "backends: the weights of all backends together must be below 4294967296"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, wrong(t, mesh.MeshGatewayRoutes, c.body)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
