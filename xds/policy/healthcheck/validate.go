package healthcheck

import (
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxWait is the maximum time for the first check of an endpoint. Envoy does not confirm a
// cluster before that check, so a slow endpoint keeps a proxy from new configuration for as
// long.
const maxWait = time.Minute

// minInterval is the least time between two checks of an endpoint. Every proxy that calls a
// service checks all of its endpoints.
const minInterval = 10 * time.Millisecond

const (
	textPositive = "must have a positive value"
	textPath     = "has to be defined and cannot be empty"
)

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := policy.Violations(append(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations)...))
	c := s.Conf
	if c == nil {
		v.Add("conf", policy.TextDefined)
		return v
	}
	positive := func(name string, ok bool) {
		if !ok {
			v.Add("conf."+name, textPositive)
		}
	}
	positive("interval", c.Interval.Or(0) > 0)
	positive("timeout", c.Timeout.Or(0) > 0)
	positive("unhealthyThreshold", c.UnhealthyThreshold > 0)
	positive("healthyThreshold", c.HealthyThreshold > 0)
	positive("initialJitter", c.InitialJitter.Or(1) > 0)
	v.Whole("conf.timeout", c.Timeout)
	v.Whole("conf.initialJitter", c.InitialJitter)
	v.Whole("conf.intervalJitter", c.IntervalJitter)
	rare := func(name string, d *mesh.Duration) {
		if d.Or(minInterval) > 0 && d.Or(minInterval) < minInterval {
			v.Add("conf."+name, "must not be shorter than 10ms")
		}
	}
	rare("interval", c.Interval)
	rare("noTrafficInterval", c.NoTrafficInterval)
	short := func(name string, d *mesh.Duration) {
		if d.Or(0) > maxWait {
			v.Add("conf."+name, "must not be longer than 1m")
		}
	}
	short("timeout", c.Timeout)
	short("initialJitter", c.InitialJitter)
	positive("intervalJitter", c.IntervalJitter.Or(1) > 0)
	positive("noTrafficInterval", c.NoTrafficInterval.Or(1) > 0)
	if p := c.HealthyPanicThreshold; p != nil && (*p < 0 || *p > 100) {
		v.Add("conf.healthyPanicThreshold", "must be in range [0.0 - 100.0]")
	}
	if c.EventLogPath != "" {
		v.Add("conf.eventLogPath", "is not supported: proxies write to no file that configuration names")
	}
	if c.HTTP != nil {
		c.HTTP.validate(&v)
	}
	if c.HTTP != nil && c.TCP != nil {
		v.Add("conf", "http and tcp cannot be defined at the same time")
	}
	return v
}

func (h *HTTP) validate(v *policy.Violations) {
	switch {
	case h.Path == "":
		v.Add("conf.http.path", textPath)
	case !policy.Visible(h.Path):
		v.Add("conf.http.path", policy.TextVisible)
	default:
		v.Sent("conf.http.path", h.Path)
	}
	for i, status := range h.ExpectedStatuses {
		if status < 100 || status >= 600 {
			v.Add(fmt.Sprintf("conf.http.expectedStatuses[%d]", i), "must be in range [100, 600)")
		}
	}
	if len(h.RequestHeadersToAdd) > policy.MaxHeaders {
		v.Add("conf.http.requestHeadersToAdd", policy.TextMany, policy.MaxHeaders)
		return
	}
	for i, add := range h.RequestHeadersToAdd {
		path := fmt.Sprintf("conf.http.requestHeadersToAdd[%d].header", i)
		switch {
		case add.Header == nil:
			v.Add(path, policy.TextDefined)
		case add.Header.Key == "":
			v.Add(path+".key", "cannot be empty")
		default:
			v.Header(path, add.Header.Key, add.Header.Value)
		}
	}
}
