package timeout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	const sources, destinations = `"sources":[{"match":{"mesh.io/service":"web"}}]`, `"destinations":[{"match":{"mesh.io/service":"backend"}}]`
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{`selectors`, `"destinations":[{"match":{"version":"v1"}}],"conf":{}`, []string{`sources: must have at least one element`, `destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["version"]: tag "version" is not allowed`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`}},
		{`no conf`, sources + `,` + destinations, []string{`conf: has to be defined`}},
		{`empty conf`, sources + `,` + destinations + `,"conf":{}`, nil},
		{`empty sections`, sources + `,` + destinations + `,"conf":{"tcp":{},"http":{"streamIdleTimeout":"1s"},"grpc":{}}`, []string{`conf.tcp: at least one timeout in section has to be defined`, `conf.http: at least one timeout in section has to be defined`, `conf.grpc: at least one timeout in section has to be defined`}},
		{`zeros`, sources + `,` + destinations + `,"conf":{"connectTimeout":"0s","tcp":{"idleTimeout":"0s"},"http":{"requestTimeout":"0s","idleTimeout":"-1s"},"grpc":{"streamIdleTimeout":"0s","maxStreamDuration":"0s"}}`, []string{`conf.tcp.idleTimeout: has to be greater than 0`, `conf.http.requestTimeout: has to be greater than 0 when defined`, `conf.http.idleTimeout: has to be greater than 0 when defined`, `conf.grpc.streamIdleTimeout: has to be greater than 0 when defined`, `conf.grpc.maxStreamDuration: has to be greater than 0 when defined`}},
		{`less than a millisecond`, sources + `,` + destinations + `,"conf":{"connectTimeout":"500us","tcp":{"idleTimeout":"1ns"},"http":{"requestTimeout":"999us","idleTimeout":"1ms"}}`, []string{`conf.connectTimeout: must be at least 1ms`, `conf.tcp.idleTimeout: must be at least 1ms`, `conf.http.requestTimeout: must be at least 1ms`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"Timeout","mesh":"demo","name":"x",`+c.fields+`}`))
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
