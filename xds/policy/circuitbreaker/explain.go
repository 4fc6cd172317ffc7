package circuitbreaker

import "github.com/meshgate/meshgate/xds/policy"

// explain shows what is in force: what is absent is off or as Envoy has it.
func explain(s *policy.Selection) any { return effective(s) }
