package circuitbreaker

import "github.com/meshgate/meshgate/xds/policy"

// explain shows what is in force. What is absent is off or has Envoy's default.
func explain(s *policy.Selection) any { return effective(s) }

// idle: Envoy counts network failures as error responses unless it is told to split them, and the
// detector for them alone counts nothing.
func idle(s *policy.Selection, _ policy.Setting) []string {
	if c := effective(s); c.detects() && c.Detectors.LocalErrors != nil && !c.SplitExternalAndLocalErrors {
		return []string{"conf.detectors.localErrors has no effect without conf.splitExternalAndLocalErrors"}
	}
	return nil
}
