package faultinjection

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

const textEmpty = "cannot be empty"

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := append(callers.Check(s.Sources), mesh.CheckAny("destinations", s.Destinations)...)
	for i, d := range s.Destinations {
		path := fmt.Sprintf("destinations[%d].match", i)
		if protocol, ok := d.Match[mesh.TagProtocol]; !ok {
			v.Add(path, "protocol must be specified")
		} else if !mesh.IsHTTP(protocol) {
			v.Add(path+`["`+mesh.TagProtocol+`"]`, "must be one of the [http, http2, grpc]")
		}
	}
	c := s.Conf
	if c == nil || c.none() {
		v.Add("conf", "must have at least one of the faults configured")
		return v
	}
	if d := c.Delay; d != nil {
		share(&v, "conf.delay", d.Percentage)
		switch {
		case d.Value == nil:
			v.Add("conf.delay.value", textEmpty)
		case *d.Value < 0:
			v.Add("conf.delay.value", "must not be negative")
		}
		v.Whole("conf.delay.value", d.Value)
	}
	if a := c.Abort; a != nil {
		share(&v, "conf.abort", a.Percentage)
		switch {
		case a.HTTPStatus == nil:
			v.Add("conf.abort.httpStatus", textEmpty)
		case !registered(*a.HTTPStatus):
			v.Add("conf.abort.httpStatus", "http status code is incorrect")
		}
	}
	if b := c.ResponseBandwidth; b != nil {
		share(&v, "conf.responseBandwidth", b.Percentage)
		if _, ok := rate(b.Limit); b.Limit == "" {
			v.Add("conf.responseBandwidth.limit", textEmpty)
		} else if !ok {
			v.Add("conf.responseBandwidth.limit", "has to be in kbps/mbps/gbps units")
		}
	}
	return v
}

// none reports whether all faults are absent or empty.
func (c *Conf) none() bool {
	return (c.Delay == nil || *c.Delay == (Delay{})) && (c.Abort == nil || *c.Abort == (Abort{})) &&
		(c.ResponseBandwidth == nil || *c.ResponseBandwidth == (Bandwidth{}))
}

func share(v *policy.Violations, path string, percentage *float64) {
	switch {
	case percentage == nil:
		v.Add(path+".percentage", textEmpty)
	case !(*percentage >= 0 && *percentage <= 100):
		v.Add(path+".percentage", policy.TextPercentRange)
	}
}

// statuses are the registered statuses that can answer a request, as ranges.
var statuses = [][2]uint32{{200, 208}, {226, 226}, {300, 305}, {307, 308}, {400, 418}, {421, 426}, {428, 429}, {431, 431}, {451, 451}, {500, 508}, {510, 511}}

func registered(status uint32) bool {
	for _, r := range statuses {
		if r[0] <= status && status <= r[1] {
			return true
		}
	}
	return false
}

var limit = regexp.MustCompile(`^(\d{1,9})\s?([kmg])bps$`)

// rate converts a limit to Envoy's unit, KiB per second; the result is at least one.
func rate(text string) (kib uint64, ok bool) {
	m := limit.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil || n == 0 {
		return 0, false
	}
	bits := float64(n) * map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9}[m[2]]
	return uint64(max(1, math.Round(bits/8/1024))), true
}
