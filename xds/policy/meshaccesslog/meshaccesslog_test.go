package meshaccesslog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/target"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate covers every violation, with its path.
func TestValidate(t *testing.T) {
	saying := func(backends string) string {
		return `"spec":{"targetRef":{"kind":"Mesh"},"to":[{"targetRef":{"kind":"Mesh"},"default":{` + backends + `}}]}`
	}
	backend := func(b string) string { return saying(`"backends":[` + b + `]`) }
	format := func(f string) string {
		return backend(`{"type":"File","file":{"path":"a.log","format":{` + f + `}}}`)
	}
	otel := func(o string) string {
		return backend(`{"type":"OpenTelemetry","openTelemetry":{"endpoint":"otel:4317",` + o + `}}`)
	}
	const at = "spec.to[0].default.backends[0]"
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"no backend", saying(`"backends":[]`), nil},
		{"file", backend(`{"type":"File","file":{"path":"/logs/a.log"}}`), nil},
		{"tcp", backend(`{"type":"Tcp","tcp":{"address":"logs:5000","format":{"type":"Plain","plain":"%PROTOCOL%","omitEmptyValues":false}}}`), nil},
		{"body", otel(`"body":{"arrayValue":{"values":[{"stringValue":"%MESH_NAME%"}]}}`), nil},
		{"nothing", `"labels":{}`, []string{"spec: must be defined"}},
		{"empty", `"spec":{}`, []string{"spec.targetRef: must be defined", "spec: at least one of 'from', 'to' has to be defined"}},
		{"kinds", `"spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"MeshService","name":"a"},"default":{"backends":[]}}],"to":[{"targetRef":{"kind":"MeshSubset","tags":{"a":"b"}},"default":{"backends":[]}}]}`, []string{
			"spec.from[0].targetRef.kind: value is not supported. Available values: Mesh", "spec.to[0].targetRef.kind: value is not supported. Available values: Mesh, MeshService",
		}},
		{"no conf", `"spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"}}]}`, []string{"spec.from[0].default: must be defined"}},
		{"no backends", saying(``), nil},
		{"many backends", backend(strings.Repeat(`{"type":"File","file":{"path":"a"}},`, maxBackends) + `{"type":"x"}`), []string{"spec.to[0].default.backends: must have at most 8 elements"}},
		{"much", backend(strings.Repeat(`{"type":"File","file":{"path":"a","format":{"type":"Plain","plain":"`+strings.Repeat("x", 4096)+`"}}},`, maxBackends-1) + `{"type":"OpenTelemetry","openTelemetry":{"endpoint":"otel:4317","body":{"stringValue":"` + strings.Repeat("x", 4096) + `"}}}`), []string{"spec.to[0].default.backends: must not have more than 32768 bytes in all"}},
		{"as much as can be", backend(strings.Repeat(`{"type":"File","file":{"path":"a","format":{"type":"Plain","plain":"`+strings.Repeat("x", 4095)+`"}}},`, maxBackends-1) + `{"type":"File","file":{"path":"a","format":{"type":"Plain","plain":"` + strings.Repeat("x", 4095) + `"}}}`), nil},
		{"type", backend(`{"file":{"path":"a"}}`), []string{at + ".type: value is not supported. Available values: Tcp, File, OpenTelemetry"}},
		{"member", backend(`{"type":"Tcp","file":{"path":"a"}}`), []string{at + ".tcp: must be defined", at + ".file: must not be set with type Tcp"}},
		{"values", backend(`{"type":"Tcp","tcp":{"address":"x"}},{"type":"File","file":{"path":"../x"}}`), []string{
			at + ".tcp.address: has to be in format of HOST:PORT", "spec.to[0].default.backends[1].file.path: must be the path of a file, without . and .. and empty parts",
		}},
		{"no format", format(``), []string{at + ".file.format.type: value is not supported. Available values: Plain, Json"}},
		{"plain", format(`"type":"Plain","json":[],"omitEmptyValues":true`), []string{
			at + ".file.format.omitEmptyValues: is not supported: a value that does not exist is shown as -", at + ".file.format.plain: must not be empty",
		}},
		{"operator", format(`"type":"Plain","plain":"%ENVIRONMENT(A)%"`), []string{at + ".file.format.plain: %ENVIRONMENT% is no operator that access logs may use"}},
		{"json", format(`"type":"Json","plain":"x"`), []string{at + ".file.format.json: must not be empty", at + ".file.format.plain: must not be set with type Json"}},
		{"members", format(`"type":"Json","json":[{"key":"a","value":"%X%"},{"key":"a","value":"x"},{"value":"x"},{"key":"b"}]`), []string{
			at + ".file.format.json[0].value: %X% is no operator that access logs may use", at + ".file.format.json[1].key: there is another element with this key",
			at + ".file.format.json[2].key: must be 1 to 256 characters without control characters", at + ".file.format.json[3].value: must not be empty",
		}},
		{"headers of a line", format(`"type":"Json","json":[{"key":"a","value":"` + strings.Repeat("%REQ(a)%", 20) + `"},{"key":"b","value":"` + strings.Repeat("%RESP(a)%", 13) + `"}]`), []string{
			at + ".file.format.json: must not have more than 32 headers in all",
		}},
		{"headers of a body", otel(`"body":{"arrayValue":{"values":[{"stringValue":"` + strings.Repeat("%REQ(a)%", 20) + `"},{"stringValue":"` + strings.Repeat("%TRAILER(a)%", 13) + `"}]}}`), []string{
			at + ".openTelemetry.body: must not have more than 32 headers in all",
		}},
		{"as many headers as can be", format(`"type":"Json","json":[{"key":"a","value":"` + strings.Repeat("%REQ(a)%", 20) + `"},{"key":"b","value":"` + strings.Repeat("%RESP(a)%", 12) + `"}]`), nil},
		{"endpoint", backend(`{"type":"OpenTelemetry","openTelemetry":{"endpoint":"http://otel:4318"}}`), []string{at + ".openTelemetry.endpoint: must be host:port, or a URL with the scheme grpc or grpcs"}},
		{"address", otel(`"attributes":[{"key":"a","value":"%MESH_SOURCE_ADDRESS%"}]`), []string{
			at + ".openTelemetry.attributes[0].value: must not have %MESH_SOURCE_ADDRESS%, which only lines have; %UPSTREAM_LOCAL_ADDRESS% is the address from which a proxy calls",
		}},
		{"body of numbers", otel(`"body":{"intValue":"1"}`), []string{at + ".openTelemetry.body: must consist of stringValue, kvlistValue and arrayValue"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"MeshAccessLog","mesh":"demo","name":"x",`+c.fields+`}`))
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

// chosen returns policies, the strongest first, of which each says one thing.
func chosen(t *testing.T, specs ...string) (out []*view.Policy) {
	t.Helper()
	for i, s := range specs {
		text := fmt.Sprintf(`{"type":"MeshAccessLog","mesh":"demo","name":"%c","spec":{"targetRef":{"kind":"Mesh"},%s}}`, 'a'+i, s)
		out = append(out, policytest.Resource(t, Kind, []byte(text))...)
	}
	return out
}

// TestStrongestDecides: for callers and for each service one conf counts, and an empty list logs
// nothing. The rules say the same.
func TestStrongestDecides(t *testing.T) {
	file := func(name string) string {
		return `"default":{"backends":[{"type":"File","file":{"path":"` + name + `"}}]}`
	}
	s := &policy.Selection{Policies: chosen(t,
		`"to":[{"targetRef":{"kind":"MeshService","name":"quiet"},"default":{}},{"targetRef":{"kind":"MeshService","name":"backend"},`+file("backend.log")+`}]`,
		`"to":[{"targetRef":{"kind":"Mesh"},`+file("all.log")+`}],"from":[{"targetRef":{"kind":"Mesh"},`+file("callers.log")+`}]`)}
	paths := func(c *Conf) (out []string) {
		if c == nil {
			return nil
		}
		for _, b := range c.Backends {
			out = append(out, b.File.Path)
		}
		return out
	}
	for service, want := range map[string][]string{"backend": {"backend.log"}, "quiet": nil, mesh.PassThrough: {"all.log"}} {
		rules := rules(s, policy.Site{Side: policy.Destinations, Service: service})
		if len(rules) != 1 || cmp.Diff(want, paths(rules[0].Conf.(*Conf))) != "" {
			t.Errorf("rules for %s are %+v", service, rules)
		}
		d := policytest.NewDrafts(mesh.ProtocolTCP, true)
		d.Outbound.Service = service
		if err := d.Apply(Policy, s); err != nil || len(d.Outbound.TCP.GetAccessLog()) != len(want) || len(d.Inbound.TCP.GetAccessLog()) != 1 {
			t.Errorf("%s: %d and %d loggers, %v", service, len(d.Outbound.TCP.GetAccessLog()), len(d.Inbound.TCP.GetAccessLog()), err)
		}
	}
	if got := rules(s, policy.Site{Side: policy.Callers}); len(got) != 1 || cmp.Diff([]string{"callers.log"}, paths(got[0].Conf.(*Conf))) != "" {
		t.Errorf("rules for callers are %+v", got)
	}
	if got := rules(s, policy.Site{Side: policy.Proxy}); got != nil {
		t.Errorf("rules for the proxy are %+v", got)
	}
}

// TestContributionsShareSpecs: what several plans read at the same time is not written, also not
// behind the end of a slice.
func TestContributionsShareSpecs(t *testing.T) {
	item := func(path string) target.Item[Conf] {
		return target.Item[Conf]{Default: &Conf{Backends: []Backend{{Type: typeFile, File: &File{Path: path}}}}}
	}
	from := append(make([]target.Item[Conf], 0, 2), item("a.log"))
	r := &Resource{Spec: &Spec{From: from, To: []target.Item[Conf]{item("b.log")}}}
	var d draft.Contribution
	if err := contribute(&d, &policy.Selection{Policies: []*view.Policy{{Spec: r}}}); err != nil || len(d.Clusters) != 2 {
		t.Errorf("%d sinks, %v", len(d.Clusters), err)
	}
	if from[:2][1].Default != nil {
		t.Error("a shared spec was written")
	}
}
