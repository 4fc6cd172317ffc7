package circuitbreaker

import "github.com/meshgate/meshgate/xds/policy"

// explain shows what is in force. What is absent is off or has Envoy's default.
func explain(s *policy.Selection) any { return effective(s) }
