package passing_test

import (
	"net/netip"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/passing"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestCopiesRememberWhatIsKept: a copy has the last good version of a service that cannot be made,
// which a new planner does not have.
func TestCopiesRememberWhatIsKept(t *testing.T) {
	sick := false
	z := passingtest.New(t, func() *passing.Planner {
		return passing.New(passing.Role{Serves: func(*view.Mesh) bool { return true }, Leads: func(s *view.MeshService, _ string, _ map[netip.AddrPort]bool) ([]view.Endpoint, int) {
			if sick {
				panic("a mistake")
			}
			return s.Endpoints, 0
		}})
	})
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web"}))
	before := z.Set()
	apart := z.Planner.(*passing.Planner).Copy()
	sick = true
	apart.Update(z.Write(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web"})))
	if fs := apart.Failures(); len(fs) != 1 || !fs[0].Kept {
		t.Errorf("failures are %+v", fs)
	}
	if set, err := apart.Copy().Set("127.0.0.1", 10001); err != nil || !set.Equal(before) || set.Len(resource.Cluster) == 0 {
		t.Errorf("what was good is gone: %v", err)
	}
}
