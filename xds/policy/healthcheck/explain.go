package healthcheck

import (
	"encoding/base64"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// explain conceals what is secret: it is for everybody who may see which policies apply.
func explain(s *policy.Selection) any {
	c := effective(s)
	if c.HTTP != nil {
		http := *c.HTTP
		http.RequestHeadersToAdd = slices.Clone(http.RequestHeadersToAdd)
		for i, h := range http.RequestHeadersToAdd {
			if h.Header != nil {
				http.RequestHeadersToAdd[i].Header = &Header{Key: h.Header.Key, Value: model.Concealed}
			}
		}
		c.HTTP = &http
	}
	if c.TCP != nil && len(c.TCP.Send) > 0 {
		send, _ := base64.StdEncoding.DecodeString(model.Concealed) // it is shown in base64, and is that
		c.TCP = &TCP{Send: send, Receive: c.TCP.Receive}
	}
	return &c
}

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
