package circuitbreaker

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/policy"
)

// explain shows what is in force. What is absent is off or has Envoy's default.
func explain(s *policy.Selection) any { return effective(s) }

// idle: Envoy counts network failures as error responses unless it is told to split them, and the
// detector for them alone counts nothing. Without detectors nothing is ejected.
func idle(s *policy.Selection, _ policy.Setting) (out []string) {
	c := effective(s)
	if !c.detects() {
		return c.undetected()
	}
	d := c.Detectors
	for _, x := range []struct {
		name  string
		of    *Errors
		apart bool
	}{{"totalErrors", d.TotalErrors, false}, {"gatewayErrors", d.GatewayErrors, false}, {"localErrors", d.LocalErrors, true}} {
		switch {
		case x.of == nil:
		case x.apart && !c.SplitExternalAndLocalErrors:
			out = append(out, fmt.Sprintf("conf.detectors.%s has no effect without conf.splitExternalAndLocalErrors", x.name))
		case x.of.Consecutive != nil && *x.of.Consecutive == 0:
			// Envoy compares after it has counted an error.
			out = append(out, fmt.Sprintf("conf.detectors.%s has no effect: consecutive is 0, which no number of errors in a row is", x.name))
		}
	}
	return out
}

// undetected names what says how endpoints are ejected, and nothing ejects them.
func (c *Conf) undetected() (out []string) {
	for _, x := range []struct {
		name  string
		given bool
	}{
		{"interval", c.Interval != nil}, {"baseEjectionTime", c.BaseEjectionTime != nil},
		{"maxEjectionPercent", c.MaxEjectionPercent != nil}, {"splitExternalAndLocalErrors", c.SplitExternalAndLocalErrors},
	} {
		if x.given {
			out = append(out, "conf."+x.name+" has no effect without conf.detectors")
		}
	}
	return out
}
