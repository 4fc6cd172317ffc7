package meshtokenauth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate covers every violation, with its path.
func TestValidate(t *testing.T) {
	const (
		id     = `2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11`
		target = `"targetRef":{"kind":"Mesh"}`
		plugin = `{"plugin":{"id":"` + id + `"}}`
	)
	to := func(target string) string {
		return `"spec":{"targetRef":` + target + `,"from":[{"targetRef":{"kind":"Mesh"},"default":` + plugin + `}]}`
	}
	demanding := func(demand string) string {
		return `"spec":{` + target + `,"from":[{"targetRef":{"kind":"Mesh"},"default":` + demand + `}]}`
	}
	const one = `spec.from[0].default: must have exactly one of "plugin" or "config"`
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"valid", demanding(plugin), nil},
		{"inline", demanding(`{"config":{"global_credentials":true,"auth_header_name":"X-Token","realm":"a b"}}`), nil},
		{"subset", to(`{"kind":"MeshSubset","tags":{"version":"v1"}}`), nil},
		{"service", to(`{"kind":"MeshService","name":"backend"}`), nil},
		{"nothing", `"labels":{}`, []string{"spec: must be defined"}},
		{"empty", `"spec":{}`, []string{"spec.targetRef: must be defined", "spec.from: must have at least one element"}},
		{"two callers", `"spec":{` + target + `,"from":[{"targetRef":{"kind":"MeshServiceSubset","name":"web","tags":{"version":"v1"}},"default":` + plugin + `},{"targetRef":{"kind":"MeshSubset","tags":{"version":"v1"}},"default":` + plugin + `}]}`, nil},
		{"second caller", `"spec":{` + target + `,"from":[{"targetRef":{"kind":"MeshService","name":"web"},"default":` + plugin + `},{"targetRef":{"kind":"MeshService"}}]}`,
			[]string{"spec.from[1].targetRef.name: must be set with kind MeshService", `spec.from[1].default: must have exactly one of "plugin" or "config"`}},
		{"too many callers", `"spec":{` + target + `,"from":[` + strings.Repeat(`{"targetRef":{"kind":"Mesh"},"default":`+plugin+`},`, 64) + `{"targetRef":{"kind":"Mesh"},"default":` + plugin + `}]}`,
			[]string{"spec.from: must have at most 64 elements"}},
		{"kind of target", to(`{"kind":"MeshHTTPRoute"}`), []string{"spec.targetRef.kind: value is not supported. Available values: Mesh, MeshSubset, MeshService, MeshServiceSubset, MeshGateway"}},
		{"gateway", to(`{"kind":"MeshGateway","name":"edge"}`), nil},
		{"listeners of a gateway", to(`{"kind":"MeshGateway","name":"edge","tags":{"port":"http"}}`), nil},
		{"gateway without name", to(`{"kind":"MeshGateway"}`), []string{"spec.targetRef.name: must be set with kind MeshGateway"}},
		{"any gateway", to(`{"kind":"MeshGateway","name":"*"}`), []string{"spec.targetRef.name: tag value must consist of alphanumeric characters, dots, dashes and underscores"}},
		{"clients of a gateway", `"spec":{"targetRef":{"kind":"MeshGateway","name":"edge"},"from":[{"targetRef":{"kind":"MeshService","name":"web"},"default":` + plugin + `}]}`,
			[]string{"spec.from[0].targetRef.kind: value is not supported. Available values: Mesh"}},
		{"mesh with name", to(`{"kind":"Mesh","name":"x"}`), []string{"spec.targetRef: must not have name or tags with kind Mesh"}},
		{"mesh with tags", to(`{"kind":"Mesh","tags":{"a":"b"}}`), []string{"spec.targetRef: must not have name or tags with kind Mesh"}},
		{"subset with name", to(`{"kind":"MeshSubset","name":"x","tags":{"a":"b"}}`), []string{"spec.targetRef.name: must not be set with kind MeshSubset"}},
		{"subset without tags", to(`{"kind":"MeshSubset"}`), []string{"spec.targetRef.tags: must be set with kind MeshSubset"}},
		{"service without name", to(`{"kind":"MeshService"}`), []string{"spec.targetRef.name: must be set with kind MeshService"}},
		{"service with tags", to(`{"kind":"MeshService","name":"x","tags":{"a":"b"}}`), []string{"spec.targetRef.tags: must not be set with kind MeshService"}},
		{"source", `"spec":{` + target + `,"from":[{"targetRef":{"kind":"MeshGateway","name":"x"},"default":` + plugin + `}]}`, []string{"spec.from[0].targetRef.kind: value is not supported. Available values: Mesh, MeshSubset, MeshService, MeshServiceSubset"}},
		{"no source", `"spec":{` + target + `,"from":[{"default":` + plugin + `}]}`, []string{"spec.from[0].targetRef.kind: value is not supported. Available values: Mesh, MeshSubset, MeshService, MeshServiceSubset"}},
		{"no default", `"spec":{` + target + `,"from":[{"targetRef":{"kind":"Mesh"}}]}`, []string{one}},
		{"neither", demanding(`{}`), []string{one}},
		{"both", demanding(`{"plugin":{"id":"` + id + `"},"config":{"global_credentials":true}}`), []string{one}},
		{"control plane", demanding(`{"plugin":{"controlPlane":"other","id":"` + id + `"}}`), []string{"spec.from[0].default.plugin.controlPlane: does not exist"}},
		{"plugin id", demanding(`{"plugin":{"id":"x"}}`), []string{"spec.from[0].default.plugin.id: must be the id of a plugin instance"}},
		{"bound tokens", demanding(`{"config":{}}`), []string{"spec.from[0].default.config.global_credentials: must be true: there is no service that a token could be bound to"}},
		{"header", demanding(`{"config":{"global_credentials":true,"auth_header_name":"a b"}}`), []string{"spec.from[0].default.config.auth_header_name: must be a header name of at most 128 characters"}},
		{"long header", demanding(`{"config":{"global_credentials":true,"auth_header_name":"` + strings.Repeat("a", 129) + `"}}`), []string{"spec.from[0].default.config.auth_header_name: must be a header name of at most 128 characters"}},
		{"header of the gateway", demanding(`{"config":{"global_credentials":true,"auth_header_name":"X-Credential-Token"}}`), []string{"spec.from[0].default.config.auth_header_name: must not be a header that the gateway sets: X-Credential-Token"}},
		{"header in another spelling", demanding(`{"config":{"global_credentials":true,"auth_header_name":"x_consumer_token"}}`), []string{"spec.from[0].default.config.auth_header_name: must not be a header that the gateway sets: x_consumer_token"}},
		{"header of Envoy", demanding(`{"config":{"global_credentials":true,"auth_header_name":"X-Envoy-External-Address"}}`), []string{"spec.from[0].default.config.auth_header_name: must not be a header that the gateway sets: X-Envoy-External-Address"}},
		{"header of the connection", demanding(`{"config":{"global_credentials":true,"auth_header_name":"TE"}}`), []string{"spec.from[0].default.config.auth_header_name: must not be a header of the connection: TE"}},
		{"realm", demanding(`{"config":{"global_credentials":true,"realm":"a\"b"}}`), []string{"spec.from[0].default.config.realm: must be at most 256 printable ASCII characters without quotes and backslashes"}},
		{"long realm", demanding(`{"config":{"global_credentials":true,"realm":"` + strings.Repeat("a", 257) + `"}}`), []string{"spec.from[0].default.config.realm: must be at most 256 printable ASCII characters without quotes and backslashes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"MeshTokenAuth","mesh":"demo","name":"x",`+c.fields+`}`))
			Kind.Document.Default(spec)
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
