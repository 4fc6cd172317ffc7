package healthcheck

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
	const who = `"sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}]`
	const good = `"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1`
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{`selectors`, `"destinations":[{"match":{"version":"v1"}}]`, []string{`sources: must have at least one element`, `destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["version"]: tag "version" is not allowed`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`, `conf: has to be defined`}},
		{`valid`, who + `,"conf":{` + good + `}`, nil},
		{`empty`, who + `,"conf":{}`, []string{`conf.interval: must have a positive value`, `conf.timeout: must have a positive value`, `conf.unhealthyThreshold: must have a positive value`, `conf.healthyThreshold: must have a positive value`}},
		{`spans`, who + `,"conf":{` + good + `,"initialJitter":"0s","intervalJitter":"0s","noTrafficInterval":"0s","healthyPanicThreshold":101,"eventLogPath":"/tmp/x"}`, []string{
			`conf.initialJitter: must have a positive value`, `conf.intervalJitter: must have a positive value`, `conf.noTrafficInterval: must have a positive value`,
			`conf.healthyPanicThreshold: must be in range [0.0 - 100.0]`, `conf.eventLogPath: is not supported: proxies write to no file that configuration names`,
		}},
		{`long`, who + `,"conf":{` + strings.Replace(good, `"timeout":"1s"`, `"timeout":"61s"`, 1) + `,"initialJitter":"2m"}`, []string{`conf.timeout: must not be longer than 1m`, `conf.initialJitter: must not be longer than 1m`}},
		{`what agents refuse`, who + `,"conf":{` + good + `,"http":{"path":"%ENVIRONMENT","requestHeadersToAdd":[{"header":{"key":"a","value":"@ads_cluster"}}]}}`, []string{
			`conf.http.path: must not contain %ENVIRONMENT, with which proxies read their environment`,
			`conf.http.requestHeadersToAdd[0].header.value: must not be @ads_cluster, which is a cluster of the proxy's own`,
		}},
		{`http`, who + `,"conf":{` + good + `,"http":{"expectedStatuses":[99,600],"requestHeadersToAdd":[{},{"header":{}},{"header":{"key":"Host"}},{"header":{"key":"a b"}},{"header":{"key":"a","value":"\n"}}]}}`, []string{
			`conf.http.path: has to be defined and cannot be empty`, `conf.http.expectedStatuses[0]: must be in range [100, 600)`, `conf.http.expectedStatuses[1]: must be in range [100, 600)`,
			`conf.http.requestHeadersToAdd[0].header: has to be defined`, `conf.http.requestHeadersToAdd[1].header.key: cannot be empty`,
			`conf.http.requestHeadersToAdd[2].header.key: host header and HTTP/2 pseudo-headers are not allowed to be modified`,
			`conf.http.requestHeadersToAdd[3].header.key: must be a header name`, `conf.http.requestHeadersToAdd[4].header.value: must not have control characters`,
		}},
		{`long headers`, who + `,"conf":{` + good + `,"http":{"path":"/","requestHeadersToAdd":[{"header":{"key":"` + strings.Repeat("a", 8192) + `","value":"` + strings.Repeat("%", 8192) + `"}},{"header":{"key":"` + strings.Repeat("a", 8193) + `"}},{"header":{"key":"a","value":"` + strings.Repeat("%", 8193) + `"}}]}}`, []string{
			`conf.http.requestHeadersToAdd[1].header.key: must not have more than 8192 bytes`, `conf.http.requestHeadersToAdd[2].header.value: must not have more than 8192 bytes`,
		}},
		{`many headers`, who + `,"conf":{` + good + `,"http":{"path":"/","requestHeadersToAdd":[` + strings.Repeat(`{},`, 64) + `{}]}}`, []string{`conf.http.requestHeadersToAdd: must have at most 64 elements`}},
		{`both`, who + `,"conf":{` + good + `,"http":{"path":"/"},"tcp":{}}`, []string{`conf: http and tcp cannot be defined at the same time`}},
		{`less than proxies count`, who + `,"conf":{"interval":"1ms","timeout":"1us","unhealthyThreshold":1,"healthyThreshold":1,"noTrafficInterval":"9ms","initialJitter":"1us","intervalJitter":"1us"}`, []string{
			`conf.timeout: must be at least 1ms`, `conf.initialJitter: must be at least 1ms`, `conf.intervalJitter: must be at least 1ms`,
			`conf.interval: must not be shorter than 10ms`, `conf.noTrafficInterval: must not be shorter than 10ms`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"HealthCheck","mesh":"demo","name":"x",`+c.fields+`}`))
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

// TestIdle: what is not logged, and what load balancers do not look at, is told.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		conf string
		at   policy.Setting
		want []string
	}{
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":true,"alwaysLogHealthCheckFailures":false}`, policy.Setting{}, nil},
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":true,"healthyPanicThreshold":0.5}`, policy.Setting{}, nil},
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":false,"healthyPanicThreshold":0}`, policy.Setting{}, nil},
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":true,"healthyPanicThreshold":0}`, policy.Setting{Hashing: true}, []string{
			"conf.failTrafficOnPanic has no effect: conf.healthyPanicThreshold is 0, with which there is no panic",
		}},
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":false}`, policy.Setting{Hashing: true}, nil},
		{`{"interval":"1s","timeout":"1s","unhealthyThreshold":1,"healthyThreshold":1,"failTrafficOnPanic":true,"alwaysLogHealthCheckFailures":true}`, policy.Setting{Hashing: true}, []string{
			"conf.alwaysLogHealthCheckFailures has no effect: proxies write no log of health checks",
			"conf.failTrafficOnPanic has no effect: the TrafficRoute picks endpoints by a hash, and in a panic Envoy then picks from all of them",
		}},
	} {
		s := policytest.Select(t, Policy, []byte(`{"type":"HealthCheck","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":`+c.conf+`}`))
		if diff := cmp.Diff(c.want, Policy.IdleFields(s, c.at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.conf, diff)
		}
	}
}
