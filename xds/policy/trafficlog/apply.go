package trafficlog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/logging"
)

// found is the backend that a policy names, as the mesh has it now. With a problem nothing is
// logged.
type found struct {
	logging.Lines
	problem string
}

// Problem implements policy.Problematic.
func (f found) Problem() string { return f.problem }

func none(format string, args ...any) found {
	return found{problem: fmt.Sprintf(format, args...) + ": nothing is logged"}
}

// facts finds the backend. Envoy would refuse a listener with a wrong format, with everything
// that it does, so whatever is wrong with a backend is found here.
func facts(w policy.World, chosen []*view.Policy) any {
	spec, _ := chosen[0].Spec.(*Spec)
	var l mesh.Logging
	if w.Mesh != nil && w.Mesh.Logging != nil {
		l = *w.Mesh.Logging
	}
	name := cmp.Or(spec.backend(), l.DefaultBackend)
	if name == "" {
		return none("no backend is named, and the mesh has no default logging backend")
	}
	i := slices.IndexFunc(l.Backends, func(b mesh.LoggingBackend) bool { return b.Name == name })
	if i < 0 {
		return none("the mesh has no logging backend %q", name)
	}
	sink, wrong := l.Backends[i].Sink()
	if len(wrong) > 0 {
		return none("logging backend %q cannot be used (%s: %s)", name, wrong[0].Path, wrong[0].Message)
	}
	return found{Lines: logging.Lines{Sink: logging.To(sink), Format: l.Backends[i].Format}}
}

// lines returns what a selection found, or nil if nothing is logged.
func lines(s *policy.Selection) *logging.Lines {
	f, _ := s.Facts.(found)
	if !f.Logged() {
		return nil
	}
	return &f.Lines
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	if l := lines(s); l != nil {
		return l.Outbound(d)
	}
	return nil
}

func contribute(d *draft.Contribution, s *policy.Selection) error {
	if l := lines(s); l != nil {
		return l.Contribute(d)
	}
	return nil
}
