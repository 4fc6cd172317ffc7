package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
)

func TestRouteViolations(t *testing.T) {
	const entity = model.EntityPath
	for body, want := range map[string]map[string]string{
		`{"hosts":["*.x.test","x.*","*.x.test:80","h:80"]}`: {},
		`{"hosts":["*","a.*.b","*.*","*x.test","*.-","x.*:0"]}`: {
			"hosts.1": "invalid wildcard: must be the leftmost or the rightmost label", "hosts.2": "invalid wildcard: must be the leftmost or the rightmost label",
			"hosts.3": "invalid wildcard: must have at most one", "hosts.4": "invalid wildcard: must be the leftmost or the rightmost label",
			"hosts.5": `invalid hostname: "*.-"`, "hosts.6": "invalid wildcard: must be the leftmost or the rightmost label",
		},
		`{"paths":["~/a(?<id>[^/]+)/b$","/x"]}`: {},
		`{"paths":["~/a(","~a","~/(a{900}){2}"]}`: {
			"paths.1": "invalid regex: '~/a(' (error parsing regexp: missing closing ): `/a(`)",
			"paths.2": "should start with: / (fixed path) or ~/ (regex path)",
			"paths.3": "invalid regex: '~/(a{900}){2}' (error parsing regexp: invalid repeat count: `{2}`)",
		},
		`{"paths":["~/(a{90}){12}"]}`:                            {"paths.1": "invalid regex: '~/(a{90}){12}' (error parsing regexp: invalid repeat count: `{12}`)"},
		`{"paths":["~/a{500}b{501}"]}`:                           {"paths.1": "invalid regex: '~/a{500}b{501}' (the regular expression is too large)"},
		`{"paths":["~/(?=a)"]}`:                                  {"paths.1": "invalid regex: '~/(?=a)' (error parsing regexp: invalid or unsupported Perl syntax: `(?=`)"},
		`{"headers":{"x-a":["v","~*^a|b"]}}`:                     {},
		`{"headers":{"Host":["v"]}}`:                             {"headers": "cannot contain 'host' header, which must be specified in the 'hosts' attribute"},
		`{"headers":{":path":["v"]}}`:                            {"headers": `invalid header name: ":path"`},
		`{"headers":{"a":["v"],"A":["v"]}}`:                      {"headers": `header named twice: "a"`},
		`{"headers":{"a":[]}}`:                                   {"headers.a": "length must be at least 1"},
		`{"headers":{"a":["~*","~*(","b\u0001"]}}`:               {"headers.a.1": "invalid regex: '~*' (a regular expression follows ~*)", "headers.a.2": "invalid regex: '~*(' (error parsing regexp: missing closing ): `(`)", "headers.a.3": "must not contain control characters"},
		`{"snis":["a.test","-"]}`:                                {"snis.2": `invalid server name: "-"`},
		`{"snis":["a.test"],"protocols":["http"]}`:               {"snis": "'snis' can only be set when 'protocols' is 'https', 'grpcs' or 'wss'", entity: "must set one of 'methods', 'hosts', 'headers', 'paths' when 'protocols' is 'http'"},
		`{"snis":["a.test"],"protocols":["grpcs"]}`:              {},
		`{"snis":["a.test"],"protocols":["wss"]}`:                {},
		`{"hosts":["a"],"methods":["GET"],"protocols":["grpc"]}`: {"methods": "cannot set 'methods' when 'protocols' is 'grpc' or 'grpcs'"},
		`{"hosts":["a"],"strip_path":true,"protocols":["grpc"]}`: {"strip_path": "cannot set 'strip_path' when 'protocols' is 'grpc' or 'grpcs'"},
		`{"protocols":["grpc"]}`:                                 {entity: "must set one of 'hosts', 'headers', 'paths' when 'protocols' is 'grpc'"},
		`{"protocols":["grpc","grpcs"]}`:                         {entity: "must set one of 'hosts', 'headers', 'paths', 'snis' when 'protocols' is 'grpcs'"},
		`{"protocols":["ws"]}`:                                   {entity: "must set one of 'methods', 'hosts', 'headers', 'paths' when 'protocols' is 'ws'"},
		`{"protocols":["ws","wss"]}`:                             {entity: "must set one of 'methods', 'hosts', 'headers', 'paths', 'snis' when 'protocols' is 'wss'"},
		`{"paths":["/"],"protocols":["http","grpc"]}`:            {"protocols": "these sets are mutually exclusive: ('http', 'https'), ('grpc', 'grpcs')"},
		`{"paths":["/"],"protocols":["tcp"]}`:                    {"protocols": "not supported: tcp"},
		`{"snis":["a"],"protocols":["tls_passthrough"]}`:         {"protocols": "not supported: tls_passthrough"},
		`{"paths":["/"],"path_handling":"v1"}`:                   {"path_handling": "not supported: v1 joins the paths of service and route in another way than proxies do; use v0"},
	} {
		_, err := Routes.Schema.Process(model.OpCreate, decode(t, body), nil)
		if diff := cmp.Diff(want, violations(t, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

// TestGRPCKeepsPaths: strip_path is switched off for gRPC, also when a route becomes one for
// gRPC. Switching it on is refused.
func TestGRPCKeepsPaths(t *testing.T) {
	for _, c := range []struct {
		op         model.Op
		given, old string
		ok         bool
	}{
		{model.OpCreate, `{"hosts":["a"],"protocols":["grpcs"]}`, `{}`, true},
		{model.OpPatch, `{"protocols":["grpc"]}`, `{"hosts":["a"],"protocols":["http"],"strip_path":true}`, true},
		{model.OpPatch, `{"strip_path":true}`, `{"hosts":["a"],"protocols":["grpc"],"strip_path":false}`, false},
	} {
		old := decode(t, c.old)
		for _, f := range Routes.Schema.Fields {
			if _, ok := old[f.Name]; !ok && f.Default != nil {
				old[f.Name] = f.Default
			}
		}
		w, err := Routes.Schema.Process(c.op, decode(t, c.given), old)
		if (err == nil) != c.ok || err == nil && w.New["strip_path"] != false {
			t.Errorf("%s: %v, %v", c.given, w, err)
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	if _, err := ParsePath("~/" + strings.Repeat("a", maxPattern)); err == nil {
		t.Error("a pattern of any length is taken")
	}
	if p, err := ParsePath("~/" + strings.Repeat("a", 500)); err != nil || len(p.Path) > 600 {
		t.Errorf("%d, %v", len(p.Path), err)
	}
}
