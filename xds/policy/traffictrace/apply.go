package traffictrace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/tracing"
)

// found is the backend that a policy names, as the mesh has it now. With a problem there are no
// spans.
type found struct {
	tracing.Spans
	problem string
}

// Problem implements policy.Problematic.
func (f found) Problem() string { return f.problem }

func none(format string, args ...any) found {
	return found{problem: fmt.Sprintf(format, args...) + ": nothing is traced"}
}

// facts finds the backend. A listener that refers to a cluster that cannot be made would be
// refused, with everything that it does, so whatever is wrong with a backend is found here.
func facts(w policy.World, chosen []*view.Policy) any {
	spec, _ := chosen[0].Spec.(*Spec)
	var t mesh.Tracing
	if w.Mesh != nil && w.Mesh.Tracing != nil {
		t = *w.Mesh.Tracing
	}
	name := cmp.Or(spec.backend(), t.DefaultBackend)
	if name == "" {
		return none("no backend is named, and the mesh has no default tracing backend")
	}
	i := slices.IndexFunc(t.Backends, func(b mesh.TracingBackend) bool { return b.Name == name })
	if i < 0 {
		return none("the mesh has no tracing backend %q", name)
	}
	b := &t.Backends[i]
	c, wrong := b.Collector()
	switch {
	case len(wrong) > 0:
		return none("tracing backend %q cannot be used (%s: %s)", name, wrong[0].Path, wrong[0].Message)
	case c.APIVersion == mesh.ZipkinJSONV1:
		return none("tracing backend %q wants API version %s, which Envoy no longer speaks", name, c.APIVersion)
	}
	return found{Spans: tracing.Spans{Cluster: draft.Marked("tracing:" + name), Collector: c, Sampling: tracing.Upto(b.Sampling)}}
}

// spans returns what a selection found, or nil if there are no spans.
func spans(s *policy.Selection) *tracing.Spans {
	f, _ := s.Facts.(found)
	if !f.Traced() {
		return nil
	}
	return &f.Spans
}

func inbound(d *draft.Inbound, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Inbound(d)
	}
	return nil
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Outbound(d)
	}
	return nil
}

func contribute(d *draft.Contribution, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Contribute(d)
	}
	return nil
}
