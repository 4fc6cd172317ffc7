package sidecar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// odd are texts that somebody may write into any field.
var odd = []string{
	"", "a", "A", "%", "%%", "100%", "%REQ(x)%", "%NONE%", "%START_TIME(%s%)%", "a b", " a ", "é", "\x00", "a\nb", "\r", "\x7f", "a\tb", "host", "Host", ":authority", ":path", ":method", ":x", "*", "{", "{a}", "${x}", `\1`, `\9`, `\`, `"`,
	"content-length", "Transfer-Encoding", "connection", "x-forwarded-for", "x-envoy-a", "a_b", "a.b", "a:80", "a.", "*.a", "*.a.", "a.*", "*a", "_a", "-a", "127.0.0.1", "[::1]", "xn--a",
	"/", "//", "/a", "/a/", "/a//", "//a", "/a//b", "/./a", "/../a", "/a/..", "/%", "/%25", "/%2f", "/%REQ(x)%", "/%NONE%", "/{a=*}", "/{a}", "/*", "/**", "/é", "/a b", "/a\nb", "/a\x00", "/a?b", "/a#b", "/a;b", `/\1`, `/\9`, `/a\`, `/[`,
	".*", "/.*", "(", "a{60}b{60}", "a{1000}", "(a{30}){30}", `\pL{5}`, `\p{L}`, `\p{Kawi}`, `\p{Script=Greek}`, `\p{greek}`, `\p{Letter}`, `\p{Cn}`, `\PL`, `[\pL]`, `\x{10FFFF}`, `[^\x00-\x{10FFFF}]`, `\xFF`, `\377`, "(?P<n>a)", "(?<n>a)", "(?P<é>a)",
	"[^/]+", "[^/]{300}", "(?i)k{90}", "(?s).{99}", ".{99}", `\Qa\E`, `\Q\pL\E`, `a\z`, `\Aa$`, `\ba\B`, "(?U)a+", "(?m)^a$", "[[:word:]]", "[[:^alpha:]]{50}", "a|b|c", "(|a)*", "((((a*)*)*)*)*", "[é]", "é+", "x{0}", "[a-z0-9]{200}",
}

func long() (out []string) {
	for _, n := range []int{100, 255, 256, 1024, 1025, 4096, 16384, 16385, 70000} {
		out = append(out, strings.Repeat("a", n), "/"+strings.Repeat("a", n-1), "/"+strings.Repeat("a/", n/2)[1:], strings.Repeat("a.", n/2)+"a")
	}
	return out
}

// gatewayPlaces are where a text may stand in a rule of a MeshGatewayRoute: @ is the text.
var gatewayPlaces = map[string]string{
	"exact":            `{"matches":[{"path":{"value":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"prefix":           `{"matches":[{"path":{"match":"PREFIX","value":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"cut prefix":       `{"matches":[{"path":{"match":"PREFIX","value":@}}],"filters":[{"rewrite":{"replacePrefixMatch":"/"}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"moved prefix":     `{"matches":[{"path":{"match":"PREFIX","value":@}}],"filters":[{"redirect":{"statusCode":301,"path":{"replacePrefixMatch":"/"}}}]}`,
	"regex":            `{"matches":[{"path":{"match":"REGEX","value":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"header":           `{"matches":[{"headers":[{"name":@,"value":"a"}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"header present":   `{"matches":[{"headers":[{"name":@,"match":"PRESENT"}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"header value":     `{"matches":[{"headers":[{"name":"a","value":@}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"header regex":     `{"matches":[{"headers":[{"name":"a","match":"REGEX","value":@}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"query":            `{"matches":[{"queryParameters":[{"name":@,"value":"a"}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"query value":      `{"matches":[{"queryParameters":[{"name":"a","value":@}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"query regex":      `{"matches":[{"queryParameters":[{"name":"a","match":"REGEX","value":@}]}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"redirect scheme":  `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"redirect":{"statusCode":302,"scheme":@}}]}`,
	"redirect host":    `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"redirect":{"statusCode":302,"hostname":@}}]}`,
	"redirect path":    `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"redirect":{"statusCode":302,"path":{"replaceFull":@}}}]}`,
	"redirect prefix":  `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"redirect":{"statusCode":302,"path":{"replacePrefixMatch":@}}}]}`,
	"rewrite":          `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"rewrite":{"replaceFull":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"rewrite prefix":   `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"rewrite":{"replacePrefixMatch":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"rewrite at root":  `{"matches":[{"path":{"match":"PREFIX","value":"/"}}],"filters":[{"rewrite":{"replacePrefixMatch":@}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"request set":      `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"requestHeader":{"set":[{"name":@,"value":"a"}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"request add":      `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"requestHeader":{"add":[{"name":@,"value":"a"}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"request remove":   `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"requestHeader":{"remove":[@]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"request value":    `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"requestHeader":{"set":[{"name":"a","value":@}],"add":[{"name":"b","value":@}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"request host":     `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"requestHeader":{"set":[{"name":"Host","value":@}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"response set":     `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"responseHeader":{"set":[{"name":@,"value":"a"}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"response add":     `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"responseHeader":{"add":[{"name":@,"value":"a"}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"response remove":  `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"responseHeader":{"remove":[@]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"response value":   `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"responseHeader":{"set":[{"name":"a","value":@}],"add":[{"name":"b","value":@}]}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
	"destination":      `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"backends":[{"destination":{"mesh.io/service":"backend","version":@}}]}`,
	"destination key":  `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"backends":[{"destination":{"mesh.io/service":"backend",@:"a"}}]}`,
	"other service":    `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"backends":[{"destination":{"mesh.io/service":@}}]}`,
	"mirrored service": `{"matches":[{"path":{"match":"PREFIX","value":"/m"}}],"filters":[{"mirror":{"percentage":1,"backend":{"destination":{"mesh.io/service":@}}}}],"backends":[{"destination":{"mesh.io/service":"backend"}}]}`,
}

// trafficPlaces are where a text may stand in a rule of a TrafficRoute.
var trafficPlaces = map[string]string{
	"method":         `{"match":{"method":{"exact":@}},D}`,
	"method regex":   `{"match":{"method":{"regex":@}},D}`,
	"path":           `{"match":{"path":{"exact":@}},D}`,
	"path prefix":    `{"match":{"path":{"prefix":@}},D}`,
	"path regex":     `{"match":{"path":{"regex":@}},D}`,
	"header name":    `{"match":{"headers":{@:{"exact":"a"}}},D}`,
	"header":         `{"match":{"headers":{"a":{"exact":@}}},D}`,
	"header prefix":  `{"match":{"headers":{"a":{"prefix":@}}},D}`,
	"header regex":   `{"match":{"headers":{"a":{"regex":@}}},D}`,
	"rewritten":      `{P,"modify":{"path":{"rewritePrefix":@}},D}`,
	"pattern":        `{P,"modify":{"path":{"regex":{"pattern":@,"substitution":"/b"}}},D}`,
	"substitution":   `{P,"modify":{"path":{"regex":{"pattern":"^/(a)(.*)$","substitution":@}}},D}`,
	"host":           `{P,"modify":{"host":{"value":@}},D}`,
	"host pattern":   `{P,"modify":{"host":{"fromPath":{"pattern":@,"substitution":"b"}}},D}`,
	"host from path": `{P,"modify":{"host":{"fromPath":{"pattern":"^/(a)$","substitution":@}}},D}`,
	"request add":    `{P,"modify":{"requestHeaders":{"add":[{"name":@,"value":"a"}]}},D}`,
	"request value":  `{P,"modify":{"requestHeaders":{"add":[{"name":"a","value":@},{"name":"b","value":@,"append":true}]}},D}`,
	"request remove": `{P,"modify":{"requestHeaders":{"remove":[{"name":@}]}},D}`,
	"response add":   `{P,"modify":{"responseHeaders":{"add":[{"name":@,"value":"a"}]}},D}`,
	"response value": `{P,"modify":{"responseHeaders":{"add":[{"name":"a","value":@}]}},D}`,
	"response gone":  `{P,"modify":{"responseHeaders":{"remove":[{"name":@}]}},D}`,
}

// judging has the real Envoys judge rules of one kind.
type judging struct {
	kind *model.Kind
	// document has a rule at @.
	document string
	// give puts the decoded documents into a world and returns the proxy that has them.
	give func(w *world, specs []any) (proxy string)
}

// TestAcceptedIsAccepted: what the API accepts, every supported Envoy does. One text that it does
// not take would keep its proxies from all later changes.
func TestAcceptedIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		judging

		places map[string]string
	}{
		"MeshGatewayRoute": {judging{
			mesh.MeshGatewayRoutes, `{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"rules":[@]}}}`,
			func(w *world, specs []any) string {
				w.drop(mesh.MeshGatewayRoutes, "backend")
				w.drop(mesh.MeshGatewayRoutes, "ledger")
				for i, spec := range specs {
					spec.(*mesh.MeshGatewayRoute).Conf.HTTP.Hostnames = []string{fmt.Sprintf("h%d.example", i)}
					w.put(mesh.MeshGatewayRoutes, meshName, fmt.Sprintf("r%d", i), spec)
				}
				return "edge-1"
			},
		}, gatewayPlaces},
		"TrafficRoute": {judging{
			trafficroute.Kind, `{"sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":{"destination":{"mesh.io/service":"backend"},"http":[@]}}`,
			func(w *world, specs []any) string {
				whole := specs[0].(*trafficroute.Spec)
				for _, spec := range specs[1:] {
					whole.Conf.HTTP = append(whole.Conf.HTTP, spec.(*trafficroute.Spec).Conf.HTTP...)
				}
				w.put(trafficroute.Kind, meshName, "all", whole)
				return "web-1"
			},
		}, trafficPlaces},
	} {
		t.Run(name, func(t *testing.T) {
			rules := c.accepted(t, c.places)
			c.judge(t, rules, slices.Sorted(maps.Keys(rules)))
		})
	}
}

// accepted are the rules with one odd text that the API accepts, by what they are.
func (j *judging) accepted(t *testing.T, places map[string]string) map[string]string {
	t.Helper()
	out, refused := map[string]string{}, 0
	short := strings.NewReplacer(`,D}`, `,"destination":{"mesh.io/service":"backend"}}`, `{P,`, `{"match":{"path":{"prefix":"/p"}},`)
	for place, form := range places {
		for _, text := range append(long(), odd...) {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			rule := strings.ReplaceAll(short.Replace(form), "@", string(quoted))
			if strings.Contains(place, "service") && len(text) > 200 {
				continue // it has no cluster: see TestAssignmentsGoWithTheirClusters
			}
			if j.read(rule) == nil {
				refused++
				continue
			}
			out[fmt.Sprintf("%s %.60q (%d bytes)", place, text, len(text))] = rule
		}
	}
	if len(out) < 500 || refused < 500 {
		t.Errorf("%d documents are accepted and %d refused: the texts are not odd enough", len(out), refused)
	}
	return out
}

// read decodes a document with a rule. It returns nil if the API refuses it.
func (j *judging) read(rule string) any {
	_, spec, err := model.DecodeDocument(j.kind, []byte(strings.ReplaceAll(j.document, "@", rule)))
	if err != nil {
		return nil
	}
	if j.kind.Document.Default != nil {
		j.kind.Document.Default(spec)
	}
	if len(j.kind.Document.Validate(spec)) > 0 {
		return nil
	}
	return spec
}

// judge has Envoy judge some rules. If it refuses, each half of them is judged, down to the one
// that is wrong.
func (j *judging) judge(t *testing.T, rules map[string]string, names []string) {
	t.Helper()
	name := names[0]
	if len(names) > 1 {
		name = fmt.Sprintf("%d beginning with %s", len(names), name)
	}
	if t.Run(name, func(t *testing.T) { j.validate(t, rules, names) }) || len(names) == 1 {
		return
	}
	j.judge(t, rules, names[:len(names)/2])
	j.judge(t, rules, names[len(names)/2:])
}

func (j *judging) validate(t *testing.T, rules map[string]string, names []string) {
	t.Helper()
	w := entered(t, all.Policies())
	specs := make([]any, len(names))
	for i, name := range names {
		specs[i] = j.read(rules[name])
	}
	proxy := j.give(w, specs)
	w.settle()
	for _, f := range w.planner.Failures(proxy) {
		t.Errorf("%s: %v", f.Cell, f.Err)
	}
	set := w.planner.Set(proxy)
	plantest.Admitted(t, set)
	text, err := protojson.Marshal(longExpressions(t, static(t, set)))
	if err != nil {
		t.Fatal(err)
	}
	plantest.Validate(t, text)
}

// longExpressions says the size of the expressions that proxies take. The bootstrap of every proxy
// permits more, and warns beyond this one.
func longExpressions(t *testing.T, b *bootstrapv3.Bootstrap) *bootstrapv3.Bootstrap {
	t.Helper()
	layer, err := structpb.NewStruct(map[string]any{"re2.max_program_size.error_level": 1100.0})
	if err != nil {
		t.Fatal(err)
	}
	b.LayeredRuntime = &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: layer},
	}}}
	return b
}
