package retry

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy"
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
		{`selectors`, `"destinations":[{"match":{"version":"v1"}}],"conf":{}`, []string{`sources: must have at least one element`, `destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["version"]: tag "version" is not allowed`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`, `conf: missing protocol [grpc|http|tcp] configuration`}},
		{`no conf`, sources + `,` + destinations, []string{`conf: has to be defined`}},
		{`empty sections`, sources + `,` + destinations + `,"conf":{"http":{},"grpc":{},"tcp":{}}`, []string{`conf.http: field cannot be empty`, `conf.grpc: field cannot be empty`, `conf.tcp.maxConnectAttempts: has to be greater than 0`}},
		{`zeros`, sources + `,` + destinations + `,"conf":{"http":{"numRetries":0,"perTryTimeout":"0s","backOff":{"maxInterval":"1s"}},"grpc":{"backOff":{"baseInterval":"1s","maxInterval":"0s"}}}`, []string{`conf.http.numRetries: has to be greater than 0 when defined`, `conf.http.perTryTimeout: has to be greater than 0 when defined`, `conf.http.backOff.baseInterval: has to be defined`, `conf.grpc.backOff.maxInterval: has to be greater than 0 when defined`}},
		{`many attempts`, sources + `,` + destinations + `,"conf":{"tcp":{"maxConnectAttempts":17}}`, []string{`conf.tcp.maxConnectAttempts: must be at most 16`}},
		{`most attempts`, sources + `,` + destinations + `,"conf":{"tcp":{"maxConnectAttempts":16}}`, nil},
		{`zero base`, sources + `,` + destinations + `,"conf":{"http":{"backOff":{"baseInterval":"0s","maxInterval":"0s"}}}`, []string{`conf.http.backOff.baseInterval: has to be greater than 0`}},
		{`conditions`, sources + `,` + destinations + `,"conf":{"http":{"retryOn":["retriable_status_codes"],"retriableMethods":["GET","NONE"]},"grpc":{"retryOn":["cancelled","cancelled","internal"]}}`, []string{`conf.http.retriableMethods[1]: field cannot be empty`, `conf.http.retryOn[0]: retriableStatusCodes cannot be empty when this option is specified`, `conf.grpc.retryOn: repeated value "cancelled" at indexes [0, 1]`}},
		{`headers`, sources + `,` + destinations + `,"conf":{"http":{"retriableHeaders":["x-again","a b",":status","","%ENVIRONMENT"]}}`, []string{
			`conf.http.retriableHeaders[1]: must be a valid header name`, `conf.http.retriableHeaders[2]: must be a valid header name`, `conf.http.retriableHeaders[3]: must be a valid header name`,
			`conf.http.retriableHeaders[4]: must not contain %ENVIRONMENT, with which proxies read their environment`,
		}},
		{`too many headers`, sources + `,` + destinations + `,"conf":{"http":{"retriableHeaders":["a"` + strings.Repeat(`,"a"`, 16) + `]}}`, []string{`conf.http.retriableHeaders: must have at most 16 elements`}},
		{`less than a millisecond`, sources + `,` + destinations + `,"conf":{"http":{"perTryTimeout":"900us","backOff":{"baseInterval":"1us","maxInterval":"1us"}}}`, []string{`conf.http.perTryTimeout: must be at least 1ms`, `conf.http.backOff.baseInterval: must be at least 1ms`, `conf.http.backOff.maxInterval: must be at least 1ms`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"Retry","mesh":"demo","name":"x",`+c.fields+`}`))
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

// TestIdle: what nobody can ask of the proxies of a mesh is told.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		conf string
		at   policy.Setting
		want []string
	}{
		{`{"http":{"retryOn":["retriable_headers","envoy_ratelimited"]}}`, policy.Setting{}, []string{"conf.http.retryOn[0] has no effect without conf.http.retriableHeaders"}},
		{`{"http":{"retryOn":["retriable_headers"],"retriableHeaders":["x-again"]}}`, policy.Setting{}, nil},
		{`{"tcp":{"maxConnectAttempts":2}}`, policy.Setting{}, nil},
		{`{"http":{"retryOn":["reset","http3_post_connect_failure"]}}`, policy.Setting{}, []string{"conf.http.retryOn[1] has no effect: proxies of a mesh do not speak HTTP/3 with each other"}},
	} {
		s := policytest.Select(t, Policy, []byte(`{"type":"Retry","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":`+c.conf+`}`))
		if diff := cmp.Diff(c.want, Policy.IdleFields(s, c.at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.conf, diff)
		}
	}
}
