package healthcheck

import "github.com/meshgate/meshgate/xds/policy"

func explain(s *policy.Selection) any { c := effective(s); return &c }

func idle(s *policy.Selection, at policy.Setting) (out []string) {
	c := effective(s)
	if c.AlwaysLogHealthCheckFailures != nil && *c.AlwaysLogHealthCheckFailures {
		out = append(out, "conf.alwaysLogHealthCheckFailures has no effect: proxies write no log of health checks")
	}
	switch {
	case c.FailTrafficOnPanic == nil || !*c.FailTrafficOnPanic:
	case c.HealthyPanicThreshold != nil && *c.HealthyPanicThreshold == 0:
		out = append(out, "conf.failTrafficOnPanic has no effect: conf.healthyPanicThreshold is 0, with which there is no panic")
	case at.Hashing:
		// Envoy looks at it only where zones count, and a hash leaves no choice of a zone.
		out = append(out, "conf.failTrafficOnPanic has no effect: the TrafficRoute picks endpoints by a hash, and in a panic Envoy then picks from all of them")
	}
	return out
}
