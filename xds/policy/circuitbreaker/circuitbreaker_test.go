package circuitbreaker

import (
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
		{`selectors`, `"destinations":[{"match":{"version":"v1"}}],"conf":{}`, []string{`sources: must have at least one element`, `destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["version"]: tag "version" is not allowed`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`, `conf: must have at least one of the detector or threshold configured`}},
		{`no conf`, sources + `,` + destinations, []string{`conf: must have at least one of the detector or threshold configured`}},
		{`empty detector counts`, sources + `,` + destinations + `,"conf":{"detectors":{"totalErrors":{}}}`, nil},
		{`empty detectors`, sources + `,` + destinations + `,"conf":{"detectors":{},"thresholds":{"maxRetries":0}}`, []string{`conf.detectors: can't be empty`}},
		{`empty thresholds`, sources + `,` + destinations + `,"conf":{"detectors":{"localErrors":{}},"thresholds":{}}`, []string{`conf.thresholds: can't be empty`}},
		{`percentages`, sources + `,` + destinations + `,"conf":{"maxEjectionPercent":101,"detectors":{"failure":{"threshold":200}}}`, []string{`conf.maxEjectionPercent: has to be in [0.0 - 100.0] range`, `conf.detectors.failure.threshold: has to be in [0.0 - 100.0] range`}},
		{`no failures at all`, sources + `,` + destinations + `,"conf":{"detectors":{"failure":{"threshold":0}}}`, []string{`conf.detectors.failure.threshold: has to be greater than 0 when defined`}},
		{`often`, sources + `,` + destinations + `,"conf":{"interval":"9ms","baseEjectionTime":"1ms","detectors":{"totalErrors":{}}}`, []string{`conf.interval: must not be shorter than 10ms`}},
		{`often enough`, sources + `,` + destinations + `,"conf":{"interval":"10ms","detectors":{"totalErrors":{}}}`, nil},
		{`no interval`, sources + `,` + destinations + `,"conf":{"interval":"0s","detectors":{"totalErrors":{}}}`, nil},
		{`less than a millisecond`, sources + `,` + destinations + `,"conf":{"interval":"1us","baseEjectionTime":"1us","detectors":{"totalErrors":{}}}`, []string{`conf.interval: must not be shorter than 10ms`, `conf.baseEjectionTime: must be at least 1ms`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"CircuitBreaker","mesh":"demo","name":"x",`+c.fields+`}`))
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

// TestIdle: a detector that counts nothing is told.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		conf string
		at   policy.Setting
		want []string
	}{
		{`{"thresholds":{"maxRequests":2}}`, policy.Setting{}, nil},
		{`{"detectors":{"totalErrors":{}}}`, policy.Setting{}, nil},
		{`{"detectors":{"totalErrors":{"consecutive":0},"gatewayErrors":{"consecutive":0},"localErrors":{"consecutive":0},"standardDeviation":{}}}`, policy.Setting{}, []string{
			"conf.detectors.totalErrors has no effect: consecutive is 0, which no number of errors in a row is",
			"conf.detectors.gatewayErrors has no effect: consecutive is 0, which no number of errors in a row is",
			"conf.detectors.localErrors has no effect without conf.splitExternalAndLocalErrors",
		}},
		{`{"splitExternalAndLocalErrors":true,"detectors":{"localErrors":{"consecutive":0}}}`, policy.Setting{}, []string{"conf.detectors.localErrors has no effect: consecutive is 0, which no number of errors in a row is"}},
		{`{"interval":"1s","baseEjectionTime":"1s","maxEjectionPercent":0,"splitExternalAndLocalErrors":true,"thresholds":{"maxRequests":2}}`, policy.Setting{}, []string{
			"conf.interval has no effect without conf.detectors", "conf.baseEjectionTime has no effect without conf.detectors",
			"conf.maxEjectionPercent has no effect without conf.detectors", "conf.splitExternalAndLocalErrors has no effect without conf.detectors",
		}},
		{`{"interval":"0s","baseEjectionTime":"0s","thresholds":{"maxRequests":2}}`, policy.Setting{}, nil},
		{`{"interval":"1s","baseEjectionTime":"1s","maxEjectionPercent":0,"detectors":{"totalErrors":{}}}`, policy.Setting{}, nil},
		{`{"splitExternalAndLocalErrors":true,"detectors":{"localErrors":{}}}`, policy.Setting{}, nil},
		{`{"detectors":{"localErrors":{"consecutive":2}}}`, policy.Setting{}, []string{"conf.detectors.localErrors has no effect without conf.splitExternalAndLocalErrors"}},
	} {
		s := policytest.Select(t, Policy, []byte(`{"type":"CircuitBreaker","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":`+c.conf+`}`))
		if diff := cmp.Diff(c.want, Policy.IdleFields(s, c.at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.conf, diff)
		}
	}
}
