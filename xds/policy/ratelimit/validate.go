package ratelimit

import (
	"fmt"
	"time"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

const (
	// shortest is the shortest interval that Envoy accepts
	// (LocalRateLimit.token_bucket.fill_interval).
	shortest = 50 * time.Millisecond
	// maxHeaders is how many headers of answers Envoy accepts
	// (LocalRateLimit.response_headers_to_add).
	maxHeaders = 10
)

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := append(callers.Check(s.Sources), mesh.CheckAny("destinations", s.Destinations)...)
	switch {
	case s.Conf == nil:
		v.Add("conf", "must have conf")
	case s.Conf.HTTP != nil:
		s.Conf.HTTP.validate(&v)
	}
	return v
}

func (h *HTTP) validate(v *policy.Violations) {
	if h.Requests == 0 {
		v.Add("conf.http.requests", "requests must be set")
	}
	switch {
	case h.Interval == nil:
		v.Add("conf.http.interval", "interval must be set")
	case time.Duration(*h.Interval) < shortest:
		v.Add("conf.http.interval", "must be at least %s", shortest)
	}
	on := h.OnRateLimit
	if on == nil {
		return
	}
	if on.Status != nil && !accepted(*on.Status) {
		v.Add("conf.http.onRateLimit.status", "must be an http status code of 400 or more that Envoy knows")
	}
	if len(on.Headers) > maxHeaders {
		v.Add("conf.http.onRateLimit.header", "must have at most %d elements", maxHeaders)
	}
	for i, header := range on.Headers {
		path := fmt.Sprintf(`conf.http.onRateLimit.header["%d"]`, i)
		if header.Key == "" {
			v.Add(path, "key must be set")
		}
		if header.Value == "" {
			v.Add(path, "value must be set")
		}
		v.Header(path, header.Key, header.Value)
	}
}

// accepted reports whether Envoy answers with a status: with a lower one it would say 429, and
// it refuses those that it does not know.
func accepted(status uint32) bool {
	return status >= 400 && code(status) != typev3.StatusCode_Empty
}

// code returns Envoy's code of a status, Empty for one that it does not know.
func code(status uint32) typev3.StatusCode {
	for known := range typev3.StatusCode_name {
		if int64(known) == int64(status) {
			return typev3.StatusCode(known)
		}
	}
	return typev3.StatusCode_Empty
}
