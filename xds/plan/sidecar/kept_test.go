package sidecar_test

import (
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// spoiling are the policies of the program, but that no cluster can be made for which the
// circuit breaker named broken is chosen.
func spoiling() []*policy.Policy {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == circuitbreaker.Kind {
			spoils := *p
			spoils.Cluster = func(d *draft.Cluster, s *policy.Selection) error {
				if s.Policies[0].Name == "broken" {
					return errors.New("a mistake")
				}
				return p.Cluster(d, s)
			}
			policies[i] = &spoils
		}
	}
	return policies
}

// replan plans what was written, and leaves open whether all that is named is there.
func (w *world) replan() {
	change := w.take()
	w.planner.Update(change.State, change.Keys, change.All)
	w.planner.Plan()
}

// guardedPair is a strict mesh in which web calls backend.
func guardedPair(t *testing.T) *world {
	w := newWorldOf(t, spoiling(), outsides{})
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "backend", "maps"))
	w.joined("backend-1", "web-1")
	return w
}

// TestKeptClusterIsWhatItWasMade: a cluster that cannot be made anew is judged by how it
// was made itself, however often that is tried, and not by what was due meanwhile.
func TestKeptClusterIsWhatItWasMade(t *testing.T) {
	w := guardedPair(t)
	before := w.planner.Set("web-1").Get(resource.Cluster, "backend")
	w.put(circuitbreaker.Kind, meshName, "broken", breaker("web", "backend", 1))
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "backend") != before {
		t.Fatal("the cluster with TLS did not stay in a mesh without")
	}
	w.under(mesh.ModeStrict)
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "backend") != before {
		t.Error("the cluster that is due went")
	}
}

// TestClusterMadeInClearDoesNotStay: how a cluster was made before it was made anew says
// nothing of it.
func TestClusterMadeInClearDoesNotStay(t *testing.T) {
	w := guardedPair(t)
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.replan()
	if cluster(t, w.planner.Set("web-1"), "backend").GetTransportSocket() != nil {
		t.Fatal("the cluster has TLS in a mesh without")
	}
	w.put(circuitbreaker.Kind, meshName, "broken", breaker("web", "backend", 1))
	w.under(mesh.ModeStrict)
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "backend") != nil {
		t.Error("a cluster in clear text stays in a strict mesh")
	}
}

// TestClusterOfAnotherKindDoesNotStay: a service that is of another kind now is not called
// where it was, although the name of the cluster is the same and this kind would keep any.
func TestClusterOfAnotherKindDoesNotStay(t *testing.T) {
	w := guardedPair(t)
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.put(outsideKind, meshName, "maps", outside("maps.example:80", "maps", ""))
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "maps@by-name") == nil {
		t.Fatal("there is no cluster beyond the mesh")
	}
	w.put(circuitbreaker.Kind, meshName, "broken", breaker("web", "maps", 1))
	w.put(mesh.Dataplanes, meshName, "maps-1", dataplane("maps.internal", "maps", "http"))
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "maps@by-name") != nil {
		t.Error("what is in the mesh now is called beyond it")
	}
}

// TestKeptForOneOutboundIsKept: a cluster that stays for one outbound stays for the proxy, also
// where another outbound leads to it that never had it.
func TestKeptForOneOutboundIsKept(t *testing.T) {
	w := newWorldOf(t, spoiling(), outsides{})
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "api", "backend"))
	w.joined("web-1")
	w.put(circuitbreaker.Kind, meshName, "broken", breaker("web", "backend", 1))
	w.put(trafficroute.Kind, meshName, "halves", halves("api", "backend"))
	w.replan()
	if w.planner.Set("web-1").Get(resource.Cluster, "backend") == nil {
		t.Fatal("the cluster did not stay")
	}
	if f := w.planner.Failures("web-1"); len(f) != 1 || !f[0].Kept {
		t.Errorf("failures are %v, want one that says what is kept", f)
	}
}

// TestServiceOfNobodyIsNotSpokenToInClear: in a permissive mesh a service without endpoints
// has the cluster that it has with its first one, which is by TLS.
func TestServiceOfNobodyIsNotSpokenToInClear(t *testing.T) {
	w := guardedPair(t)
	w.under(mesh.ModePermissive)
	w.put(mesh.Dataplanes, meshName, "maps-1", dataplane("127.0.0.12", "maps", "http"))
	w.settle()
	served := w.planner.Set("web-1").Get(resource.Cluster, "maps")
	w.drop(mesh.Dataplanes, "maps-1")
	w.settle()
	if cluster(t, w.planner.Set("web-1"), "maps").GetTransportSocket() == nil {
		t.Error("the service is called in clear text")
	}
	if now := w.planner.Set("web-1").Get(resource.Cluster, "maps"); now.Version != served.Version {
		t.Error("the cluster is another one without its endpoint")
	}
}
