package sidecar_test

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestAssignmentsGoWithTheirClusters: the cluster of a service cannot be built, because its
// name is too long for a server name. Then the service has no assignment either: agents would
// keep it, and nobody would ask for it.
func TestAssignmentsGoWithTheirClusters(t *testing.T) {
	long := strings.Repeat("s", 300)
	w := newWorld(t)
	w.put(mesh.Meshes, "", meshName, mtls(mesh.ModeStrict))
	w.put(mesh.Trusts, meshName, meshName, trust("root-1"))
	w.put(mesh.Dataplanes, meshName, "long-1", dataplane("127.0.0.21", long, "tcp"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.11", "web", "tcp", long))
	planner := sidecar.New(all.Policies(), nil, logged, w.state())
	planner.Join("web-1")
	set := planner.Plan()["web-1"]
	if set.Get(resource.Cluster, long) != nil {
		t.Fatal("the cluster can be made")
	}
	if set.Get(resource.Endpoint, long) != nil {
		t.Error("there is an assignment of a cluster that is not there")
	}
	if len(planner.Failures("web-1")) == 0 {
		t.Error("nothing is said of it")
	}
}
