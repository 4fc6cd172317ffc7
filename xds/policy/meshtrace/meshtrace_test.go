package meshtrace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/target"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate covers every violation, with its path.
func TestValidate(t *testing.T) {
	saying := func(conf string) string { return `"spec":{"targetRef":{"kind":"Mesh"},"default":{` + conf + `}}` }
	backend := func(b string) string { return saying(`"backends":[` + b + `]`) }
	const at = "spec.default.backends[0]"
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"zipkin", backend(`{"type":"Zipkin","zipkin":{"url":"http://zipkin:9411/api/v2/spans"}}`), nil},
		{"datadog", backend(`{"datadog":{"url":"http://127.0.0.1:8126"}}`), nil},
		{"openTelemetry", backend(`{"openTelemetry":{"endpoint":"otel:4317"}}`), nil},
		{"empty conf", saying(``), nil},
		{"nothing", `"labels":{}`, []string{"spec: must be defined"}},
		{"empty", `"spec":{}`, []string{"spec.targetRef: must be defined", "spec.default: must be defined"}},
		{"target", `"spec":{"targetRef":{"kind":"MeshService"},"default":{}}`, []string{"spec.targetRef.name: must be set with kind MeshService"}},
		{"two backends", backend(`{"openTelemetry":{"endpoint":"otel:4317"}},{"openTelemetry":{"endpoint":"otel:4317"}}`), []string{"spec.default.backends: must have no more than one backend defined"}},
		{"no member", backend(`{}`), []string{at + ": must have only one of: zipkin, datadog, openTelemetry"}},
		{"two members", backend(`{"openTelemetry":{"endpoint":"otel:4317"},"datadog":{"url":"http://a:1"}}`), []string{at + ": must have only one of: zipkin, datadog, openTelemetry"}},
		{"another type", backend(`{"type":"OpenTelemetry","datadog":{"url":"http://a:1"}}`), []string{at + ": openTelemetry must be defined"}},
		{"unknown type", backend(`{"type":"x","datadog":{"url":"http://a:1"}}`), []string{at + ".type: value is not supported. Available values: Zipkin, Datadog, OpenTelemetry"}},
		{"zipkin without URL", backend(`{"zipkin":{"apiVersion":"x"}}`), []string{at + ".zipkin.url: cannot be empty", at + ".zipkin.apiVersion: must be one of httpJson, httpProto"}},
		{"first version", backend(`{"zipkin":{"url":"http://a:1","apiVersion":"httpJsonV1"}}`), []string{at + ".zipkin.apiVersion: is no longer spoken by Envoy. Use httpJson or httpProto"}},
		{"datadog with TLS", backend(`{"datadog":{"url":"https://a:1"}}`), []string{at + ".datadog.url: scheme must be http"}},
		{"datadog with a path", backend(`{"datadog":{"url":"http://a:1/x"}}`), []string{at + ".datadog.url: path must not be set"}},
		{"datadog without a port", backend(`{"datadog":{"url":"http://a"}}`), []string{at + ".datadog.url: port has to be explicitly specified"}},
		{"endpoint", backend(`{"openTelemetry":{}}`), []string{at + ".openTelemetry.endpoint: cannot be empty"}},
		{"sampling", saying(`"sampling":{"client":-1,"random":100.5,"overall":101}`), []string{
			"spec.default.sampling.client: must be in inclusive range [0.0, 100.0]", "spec.default.sampling.random: must be in inclusive range [0.0, 100.0]",
			"spec.default.sampling.overall: must be in inclusive range [0.0, 100.0]",
		}},
		{"tags", saying(`"tags":[{"literal":"a"},{"name":"a"},{"name":"a","literal":"","header":{}},{"name":"a","literal":""},{"name":"a","header":{}},{"name":"a","header":{"name":"a b","default":"\n"}},{"name":"a","header":{"name":"Authorization"}},{"name":"a","header":{"name":":path"}},{"name":"a","header":{"name":":authority"}}]`), []string{
			"spec.default.tags[0].name: must not be empty",
			"spec.default.tags[1]: tag must have only one type defined: header, literal",
			"spec.default.tags[2]: tag must have only one type defined: header, literal",
			"spec.default.tags[3].literal: must not be empty",
			"spec.default.tags[4].header.name: must not be empty",
			"spec.default.tags[5].header.default: must be at most 256 characters without control characters",
			"spec.default.tags[5].header.name: must be a header name",
			"spec.default.tags[6].header.name: this header may hold a credential, which would be in every span",
			"spec.default.tags[7].header.name: this header may hold a credential, which would be in every span",
		}},
		{"the tag of paths", saying(`"tags":[{"name":"grpc.path","header":{"name":"x"}}]`), []string{"spec.default.tags[0].name: this tag is one that every proxy sets itself, so that spans have no path"}},
		{"what agents refuse", saying(`"tags":[{"name":"%ENVIRONMENT(A)%","literal":"@ads_cluster"},{"name":"@authz","header":{"name":"%ENVIRONMENT","default":"%ENVIRONMENT"}},{"name":"a","literal":"100%"}]`), []string{
			"spec.default.tags[0].name: must not contain %ENVIRONMENT, with which proxies read their environment",
			"spec.default.tags[0].literal: must not be @ads_cluster, which is a cluster of the proxy's own",
			"spec.default.tags[1].name: must not be @authz, which is a cluster of the proxy's own",
			"spec.default.tags[1].header.default: must not contain %ENVIRONMENT, with which proxies read their environment",
			"spec.default.tags[1].header.name: must not contain %ENVIRONMENT, with which proxies read their environment",
		}},
		{"subprotocols", saying(`"tags":[{"name":"a","header":{"name":"Sec-WebSocket-Protocol"}}]`), []string{"spec.default.tags[0].header.name: this header may hold a credential, which would be in every span"}},
		{"many tags", saying(`"tags":[` + strings.Repeat(`{"name":"a","literal":"a"},`, maxTags) + `{"name":"a","literal":"a"}]`), []string{"spec.default.tags: must have at most 32 elements"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"MeshTrace","mesh":"demo","name":"x",`+c.fields+`}`))
			var got []string
			for _, v := range Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// chosen returns policies, the strongest first, with some confs.
func chosen(confs ...*Conf) (out []*view.Policy) {
	for i, c := range confs {
		out = append(out, policytest.Of(Kind, string(rune('a'+i)), &Resource{Spec: &Spec{TargetRef: &target.Ref{Kind: target.Mesh}, Default: c}}))
	}
	return out
}

// TestMerged: fields of stronger policies replace those of weaker ones, and the rules tell of
// whom the result is.
func TestMerged(t *testing.T) {
	weak := &Conf{
		Backends: []Backend{{OpenTelemetry: &OpenTelemetry{Endpoint: "otel:4317"}}},
		Sampling: &Sampling{Overall: new(10.0), Random: new(50.0)}, Tags: []Tag{{Name: "a", Literal: new("a")}},
	}
	strong := &Conf{Sampling: &Sampling{Overall: new(90.0)}, Tags: []Tag{{Name: "b", Literal: new("b")}}}
	s := &policy.Selection{Policies: chosen(strong, weak)}
	s.Facts = facts(policy.World{}, s.Policies)
	want := &Conf{Backends: weak.Backends, Sampling: &Sampling{Overall: new(90.0), Random: new(50.0)}, Tags: strong.Tags}
	rules := rules(s, policy.Site{Side: policy.Proxy})
	if diff := cmp.Diff([]policy.Rule{{Subset: map[string]string{}, Conf: want, Origins: []string{"a", "b"}}}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	f := s.Facts.(found)
	if f.Sampling.Overall != 90 || f.Sampling.Random != 50 || f.Sampling.Client != 100 || f.Collector.Host != "otel" || f.problem != "" {
		t.Errorf("facts are %+v", f)
	}
}

// TestNothingToSend: without a backend, with none that can be used, and if no request is
// traced, there are no spans. A backend that cannot be used is said.
func TestNothingToSend(t *testing.T) {
	otlp := []Backend{{OpenTelemetry: &OpenTelemetry{Endpoint: "otel:4317"}}}
	for name, c := range map[string]struct {
		conf    *Conf
		problem string
	}{
		"nothing":  {nil, ""},
		"no limit": {&Conf{Sampling: &Sampling{Random: new(1.0)}}, ""},
		"off":      {&Conf{Backends: otlp, Sampling: &Sampling{Overall: new(0.0)}}, ""},
		"unusable": {&Conf{Backends: []Backend{{Zipkin: &Zipkin{URL: "x"}}}}, "(default.backends[0].zipkin.url: invalid URL): nothing is traced"},
	} {
		s := &policy.Selection{Policies: chosen(c.conf)}
		s.Facts = facts(policy.World{}, s.Policies)
		d := policytest.NewDrafts(mesh.ProtocolHTTP, true)
		if err := d.Apply(Policy, s); err != nil || d.Inbound.HTTP.GetTracing() != nil || d.Outbound.HTTP.GetTracing() != nil {
			t.Errorf("%s: spans are sent: %v", name, err)
		}
		if p := s.Facts.(found).Problem(); p != c.problem && !strings.HasSuffix(p, c.problem) {
			t.Errorf("%s: problem %q", name, p)
		}
	}
}
