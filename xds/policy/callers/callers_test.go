package callers_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

type spec struct{ sources []mesh.Selector }

// TestCallersWithoutCertificates: a policy that cannot take effect is reported, and others are
// not.
func TestCallersWithoutCertificates(t *testing.T) {
	of := func(sources ...mesh.Tags) []*view.Policy {
		s := &spec{}
		for _, m := range sources {
			s.sources = append(s.sources, mesh.Selector{Match: m})
		}
		return []*view.Policy{{Name: "x", Spec: s}}
	}
	facts := callers.Facts(func(s *spec) []mesh.Selector { return s.sources })
	sealed := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca"}}}}
	web, all := of(mesh.Tags{mesh.TagService: "web"}), of(mesh.Tags{mesh.TagService: mesh.AnyValue})
	for name, c := range map[string]struct {
		mesh *mesh.Mesh
		of   []*view.Policy
		said bool
	}{"plain": {&mesh.Mesh{}, web, true}, "none": {nil, web, true}, "plain, everybody": {&mesh.Mesh{}, all, false}, "sealed": {sealed, web, false}} {
		f, ok := facts(policy.World{Mesh: c.mesh}, c.of).(policy.Problematic)
		if ok != c.said || ok && f.Problem() == "" {
			t.Errorf("%s: %v", name, f)
		}
	}
	both := append(of(mesh.Tags{mesh.TagService: "web"}), all[0], &view.Policy{Name: "y", Spec: web[0].Spec})
	const want = "x, y is not applied: callers are known by their certificates, and the mesh has no mutual TLS"
	if got := policy.Problem(facts(policy.World{Mesh: &mesh.Mesh{}}, both)); got != want {
		t.Errorf("several policies: %q", got)
	}
}
