package mesh_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

func TestMeshValidation(t *testing.T) {
	logging := func(backend string) string { return `{"logging":{"backends":[{"name":"a",` + backend + `}]}}` }
	tracing := func(backend string) string { return `{"tracing":{"backends":[{"name":"a",` + backend + `}]}}` }
	metrics := func(conf string) string {
		return `{"metrics":{"backends":[{"name":"a","type":"prometheus","conf":{` + conf + `}}]}}`
	}
	runDocuments(t, mesh.Meshes, []documentCase{
		{"empty", `{}`, nil},
		{"accepted", `{"mtls":{"enabledBackend":"ca-1","backends":[{"name":"ca-1","type":"builtin","mode":"PERMISSIVE",
			"dpCert":{"rotation":{"expiration":"1d"},"requestTimeout":"10s"},"conf":{"caCert":{"RSAbits":2048,"expiration":"10y"}}}]},
			"logging":{"defaultBackend":"f","backends":[{"name":"f","type":"file","format":"%START_TIME%","conf":{"path":"/tmp/a"}},{"name":"t","type":"tcp","conf":{"address":"127.0.0.1:5000"}}]},
			"tracing":{"defaultBackend":"z","backends":[{"name":"z","sampling":80.5,"type":"zipkin","conf":{"url":"http://zipkin:9411/api/v2/spans"}},{"name":"d","type":"datadog","conf":{"address":"127.0.0.1","port":"8126"}}]},
			"metrics":{"enabledBackend":"p","backends":[{"name":"p","type":"prometheus"}]},"routing":{"zoneEgress":true}}`, nil},
		{"two backends", `{"mtls":{"enabledBackend":"b","backends":[{"name":"a"},{"name":"a"}]}}`, []string{
			"mtls.backends: cannot have more than 1 backends", `mtls.backends[1].name: "a" name is already used for another backend`,
			"mtls.enabledBackend: has to be set to one of the backends in the mesh",
		}},
		{"lifetime of certificates", `{"mtls":{"backends":[{"name":"a","dpCert":{"rotation":{"expiration":"1 day"}}}]}}`, []string{"mtls.dpcert.rotation.expiration: has to be a valid format"}},
		{"lifetime of nothing", `{"mtls":{"backends":[{"name":"a","dpCert":{"rotation":{"expiration":"0h"}},"conf":{"caCert":{"expiration":"0y"}}}]}}`, []string{
			"mtls.dpcert.rotation.expiration: has to be a valid format", "mtls.backends[0].conf.caCert.expiration: has to be a valid format",
		}},
		{"lifetime of centuries", `{"mtls":{"backends":[{"name":"a","dpCert":{"rotation":{"expiration":"300y"}},"conf":{"caCert":{"expiration":"99999999999999999999h"}}}]}}`, []string{
			"mtls.dpcert.rotation.expiration: has to be a valid format", "mtls.backends[0].conf.caCert.expiration: has to be a valid format",
		}},
		{"longest lifetime", `{"mtls":{"backends":[{"name":"a","dpCert":{"rotation":{"expiration":"292y"}},"conf":{"caCert":{"expiration":"292y"}}}]}}`, nil},
		{"root", `{"mtls":{"backends":[{"name":"a","conf":{"caCert":{"RSAbits":1000000,"expiration":"x"}}}]}}`, []string{
			"mtls.backends[0].conf.caCert.RSAbits: has to be in range [2048, 4096]", "mtls.backends[0].conf.caCert.expiration: has to be a valid format",
		}},
		{"logging", `{"logging":{"defaultBackend":"x","backends":[{"type":"udp"},{"type":"file"},{"name":"a","type":"tcp"}]}}`, []string{
			"logging.backends[0].name: cannot be empty", `logging.backends[0].type: unknown backend type. Available backends: "tcp", "file"`,
			"logging.backends[1].name: cannot be empty", "logging.backends[1].config.path: cannot be empty", "logging.backends[2].config.address: cannot be empty",
			`logging.backends[1].name: "" name is already used for another backend`, "logging.defaultBackend: has to be set to one of the logging backend in mesh",
		}},
		{"logging address", logging(`"type":"tcp","conf":{"address":"host"}`), []string{"logging.backends[0].config.address: has to be in format of HOST:PORT"}},
		{"logging port", logging(`"type":"tcp","conf":{"address":":1"}`), []string{"logging.backends[0].config.address: has to be in format of HOST:PORT"}},
		{"tracing", `{"tracing":{"defaultBackend":"x","backends":[{"sampling":100.1,"type":"y"}]}}`, []string{
			"tracing.backends[0].name: cannot be empty", "tracing.backends[0].sampling: has to be in [0.0 - 100.0] range",
			`tracing.backends[0].type: unknown backend type. Available backends: "zipkin", "datadog", "opentelemetry"`, "tracing.defaultBackend: has to be set to one of the tracing backend in mesh",
		}},
		{"name of a tracing backend", `{"tracing":{"backends":[{"name":"%ENVIRONMENT","type":"zipkin","conf":{"url":"http://z:1/"}},{"name":"@authz","type":"zipkin","conf":{"url":"http://z:1/"}}]}}`, []string{
			"tracing.backends[0].name: must not contain %ENVIRONMENT, with which proxies read their environment",
			"tracing.backends[1].name: must not be @authz, which is a cluster of the proxy's own",
		}},
		{"zipkin", tracing(`"type":"zipkin","conf":{"apiVersion":"x"}`), []string{
			"tracing.backends[0].config.apiVersion: has invalid value. Allowed values: httpJsonV1, httpJson, httpProto", "tracing.backends[0].config.url: cannot be empty",
		}},
		{"zipkin URL", tracing(`"type":"zipkin","conf":{"url":"wrong"}`), []string{"tracing.backends[0].config.url: invalid URL"}},
		{"zipkin port", tracing(`"type":"zipkin","conf":{"url":"http://zipkin/x"}`), []string{"tracing.backends[0].config.url: port has to be explicitly specified"}},
		{"zipkin scheme", tracing(`"type":"zipkin","conf":{"url":"ftp://zipkin:1/x"}`), []string{"tracing.backends[0].config.url: invalid URL"}},
		{"zipkin host", tracing(`"type":"zipkin","conf":{"url":"http://0x7f000001:1/x"}`), []string{"tracing.backends[0].config.url: invalid URL"}},
		{"zipkin port out of range", tracing(`"type":"zipkin","conf":{"url":"http://zipkin:65536/x"}`), []string{"tracing.backends[0].config.url: port must be in the range [1, 65535]"}},
		{"zipkin query", tracing(`"type":"zipkin","conf":{"url":"http://zipkin:9411/x?key=1"}`), []string{"tracing.backends[0].config.url: must not have credentials, a query or a fragment"}},
		{"zipkin credentials", tracing(`"type":"zipkin","conf":{"url":"http://a:b@zipkin:9411/x"}`), []string{"tracing.backends[0].config.url: must not have credentials, a query or a fragment"}},
		{"zipkin flags", tracing(`"type":"zipkin","conf":{"url":"https://[::1]:9411","apiVersion":"httpJsonV1","traceId128bit":"yes","sharedSpanContext":1}`), []string{
			"tracing.backends[0].config.traceId128bit: must be true or false", "tracing.backends[0].config.sharedSpanContext: must be true or false",
		}},
		{"datadog host", tracing(`"type":"datadog","conf":{"address":"a b","port":1,"splitService":"x"}`), []string{
			"tracing.backends[0].config.address: has to be an IP address or a host name", "tracing.backends[0].config.splitService: must be true or false",
		}},
		{"opentelemetry", tracing(`"type":"opentelemetry"`), []string{"tracing.backends[0].config.endpoint: cannot be empty"}},
		{"opentelemetry port", tracing(`"type":"opentelemetry","conf":{"endpoint":"otel"}`), []string{"tracing.backends[0].config.endpoint: port has to be explicitly specified"}},
		{"opentelemetry path of gRPC", tracing(`"type":"opentelemetry","conf":{"endpoint":"grpcs://otel:4317/v1"}`), []string{"tracing.backends[0].config.endpoint: must not have a path, because gRPC has its own"}},
		{"opentelemetry scheme", tracing(`"type":"opentelemetry","conf":{"endpoint":"tcp://otel:4317"}`), []string{"tracing.backends[0].config.endpoint: invalid URL"}},
		{"datadog", tracing(`"type":"datadog","conf":{"port":65536}`), []string{
			"tracing.backends[0].config.address: cannot be empty", "tracing.backends[0].config.port: port must be in the range [1, 65535]",
		}},
		{"metrics", `{"metrics":{"enabledBackend":"x","backends":[{"name":"a","type":"statsd"},{"name":"a","type":"prometheus"}]}}`, []string{
			`metrics.backends[1].name: "a" name is already used for another backend`,
			`metrics.backends[0].type: unknown backend type. Available backends: "prometheus"`, "metrics.enabledBackend: has to be set to one of the backends in the mesh",
		}},
		{"metrics TLS", metrics(`"skipMTLS":true,"tls":{"mode":"activeMTLSBackend"}`), []string{"metrics.backends[0].conf: skipMTLS and tls configuration cannot be defined together"}},
		{"metrics conf", metrics(`"port":0,"path":"m","envoy":{"filterRegex":"("},"aggregate":[{"name":"a"},{"name":"a"}]`), []string{
			"metrics.backends[0].conf.port: port must be in the range [1, 65535]", "metrics.backends[0].conf.path: should be a valid URL Path",
			"metrics.backends[0].conf.envoy.filterRegex: provided regexp isn't correct: error parsing regexp: missing closing ): `(`",
			"metrics.backends[0].conf.aggregate[1].name: duplicate entry: a, values have to be unique",
		}},
		{"constraints", `{"constraints":{"dataplaneProxy":{"requirements":[{}],"restrictions":[{"tags":{"a":""}}]}}}`, []string{
			"constraints.dataplaneProxy.requirements[0].tags: must have at least one tag", `constraints.dataplaneProxy.restrictions[0].tags["a"]: tag value must be non-empty`,
		}},
		{"what nothing would do", `{"meshServices":{"mode":"Exclusive"},"routing":{"defaultForbidMeshExternalServiceAccess":true}}`, []string{
			"routing.defaultForbidMeshExternalServiceAccess: is not supported: there are no MeshExternalServices. TrafficPermissions say who may call an ExternalService",
			"meshServices.mode: is not supported: there are no MeshServices. Services are named by tags, as with the mode Disabled",
		}},
		{"what is done anyway", `{"meshServices":{"mode":"Disabled"},"routing":{"defaultForbidMeshExternalServiceAccess":false}}`, nil},
		{"nothing about services", `{"meshServices":{}}`, nil},
		{"egress without mTLS", `{"routing":{"zoneEgress":true}}`, []string{"mtls: has to be set when zoneEgress enabled"}},
	})
}

// TestMetricsDefaults: completing a mesh twice is the same as once.
func TestMetricsDefaults(t *testing.T) {
	for body, want := range map[string]map[string]any{
		`{}`: {"port": 5670.0, "path": "/metrics", "tags": map[string]any{mesh.TagService: "dataplane-metrics"}, "tls": map[string]any{}},
		`{"port":1234,"skipMTLS":true}`: {
			"port": 1234.0, "path": "/metrics", "tags": map[string]any{mesh.TagService: "dataplane-metrics"}, "tls": map[string]any{"mode": "disabled"},
		},
	} {
		spec, violations := check(t, mesh.Meshes, `{"metrics":{"backends":[{"name":"p","type":"prometheus","conf":`+body+`}]}}`)
		mesh.Meshes.Document.Default(spec)
		if diff := cmp.Diff(want, spec.(*mesh.Mesh).Metrics.Backends[0].Conf); diff != "" || violations != nil {
			t.Errorf("%s: %v (-want +got):\n%s", body, violations, diff)
		}
	}
}

func TestMeshCross(t *testing.T) {
	const (
		off = `{"mtls":{"backends":[{"name":"a","type":"builtin"}]}}`
		a   = `{"mtls":{"enabledBackend":"a","backends":[{"name":"a","type":"builtin"}]}}`
		b   = `{"mtls":{"enabledBackend":"b","backends":[{"name":"b","type":"builtin"}]}}`
	)
	const changing = "mtls.enabledBackend: Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA"
	for _, tc := range []struct {
		name, old, spec string
		want            []string
	}{
		{"m", "", a, nil},
		{"a.b", "", `{}`, []string{"name: must not contain '.'"}},
		{strings.Repeat("a", 64), "", `{}`, []string{"name: cannot be longer than 63 characters"}},
		{strings.Repeat("a", 63), "", `{}`, nil},
		{"m", a, b, []string{changing}},
		{"m", a, a, nil},
		{"m", a, off, nil},
		{"m", off, b, nil},
	} {
		var old *model.Resource
		if tc.old != "" {
			spec, _ := check(t, mesh.Meshes, tc.old)
			old = &model.Resource{Spec: spec}
		}
		spec, _ := check(t, mesh.Meshes, tc.spec)
		got, err := mesh.Meshes.Document.Cross(nil, old, &model.Resource{Name: tc.name, Spec: spec})
		if diff := cmp.Diff(tc.want, lines(got)); diff != "" || err != nil {
			t.Errorf("%s %s -> %s: %v (-want +got):\n%s", tc.name, tc.old, tc.spec, err, diff)
		}
	}
}

// TestKinds: every kind has what storage and APIs need.
func TestKinds(t *testing.T) {
	names := map[string]bool{}
	for _, k := range mesh.Kinds() {
		if names[k.Name] || k.Path == "" || k.New == nil || k.Class != model.Config {
			t.Errorf("kind %+v", k)
		}
		names[k.Name] = true
		if d := k.Document; (d == nil) != k.ReadOnly || d != nil && (d.Type == "" || d.Singular == "" || d.Plural == "") {
			t.Errorf("document of %s: %+v", k.Name, d)
		}
	}
}
