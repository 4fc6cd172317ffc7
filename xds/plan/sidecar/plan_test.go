package sidecar_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

var ctx = context.Background()

var fleetNames = []string{"backend-1", "backend-2", "web-1", "web-2", "other-1"}

// fleet returns two instances of backend, two of web that call backend, and one of other.
func fleet(t testing.TB) *world {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("127.0.0.12", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "backend"))
	w.put(mesh.Dataplanes, meshName, "web-2", dataplane("127.0.0.22", "web", "http", "backend"))
	w.put(mesh.Dataplanes, meshName, "other-1", dataplane("127.0.0.31", "other", "tcp"))
	w.settle()
	for _, name := range fleetNames {
		if !w.planner.Join(name) {
			t.Fatalf("%s did not join", name)
		}
	}
	w.settle()
	return w
}

func changed(before, after *resource.Set) []string {
	var out []string
	for _, t := range resource.Types {
		d := after.Diff(before, t)
		for _, r := range d.Changed {
			out = append(out, "+"+r.Name)
		}
		for _, n := range d.Removed {
			out = append(out, "-"+n)
		}
	}
	return out
}

// TestChangesReachWhomTheyConcern makes one change after another and lists the proxies that
// get something new.
func TestChangesReachWhomTheyConcern(t *testing.T) {
	w := fleet(t)
	for _, test := range []struct {
		name   string
		change func()
		want   []string
		// names lists the changed resources of any of these proxies.
		names []string
	}{
		{"endpoint added", func() {
			w.put(mesh.Dataplanes, meshName, "backend-3", dataplane("127.0.0.13", "backend", "http"))
		}, []string{"web-1", "web-2"}, []string{"+backend"}},
		{"dataplane that nobody calls", func() {
			w.put(mesh.Dataplanes, meshName, "lonely-1", dataplane("127.0.0.41", "lonely", "http"))
		}, nil, nil},
		{"equal write", func() {
			w.put(mesh.Dataplanes, meshName, "backend-3", dataplane("127.0.0.13", "backend", "http"))
		}, nil, nil},
		{"narrow policy", func() { w.put(circuitbreaker.Kind, meshName, "narrow", breaker("web", "backend", 7)) }, []string{"web-1", "web-2"}, []string{"+backend"}},
		{"policy of another source", func() { w.put(circuitbreaker.Kind, meshName, "other", breaker("other", "backend", 9)) }, nil, nil},
		{"policy on a service that nobody calls", func() { w.put(circuitbreaker.Kind, meshName, "nobody", breaker("*", "web", 9)) }, nil, nil},
		{"permission without mutual TLS", func() { w.put(trafficpermission.Kind, meshName, "p", permission("web", "backend")) }, nil, nil},
		{"split", func() { w.put(trafficroute.Kind, meshName, "split", split("backend", 90, 10)) }, []string{"web-1", "web-2"}, []string{"+backend@a1b9fb805eac4dd7", "+backend@c5be722d8be4e7b1", "+outbound:backend", "-backend"}},
		{"mutual TLS", func() {
			w.put(mesh.Trusts, meshName, meshName, trust("root-1"))
			w.put(mesh.Meshes, "", meshName, mtls(mesh.ModeStrict))
		}, []string{"backend-1", "backend-2", "other-1", "web-1", "web-2"}, []string{
			"+backend@a1b9fb805eac4dd7", "+backend@c5be722d8be4e7b1", "+inbound:127.0.0.11:8080", "+inbound:127.0.0.12:8080", "+inbound:127.0.0.21:8080",
			"+inbound:127.0.0.22:8080", "+inbound:127.0.0.31:8080", "+inbound:backend", "+inbound:web", "+mesh_ca:secret:demo",
		}},
		{"permission", func() { w.put(trafficpermission.Kind, meshName, "p", permission("nobody", "backend")) }, []string{"backend-1", "backend-2"}, []string{"+inbound:backend"}},
		{"permission gone", func() { w.drop(trafficpermission.Kind, "p") }, []string{"backend-1", "backend-2"}, []string{"+inbound:backend"}},
		{"another root", func() { w.put(mesh.Trusts, meshName, meshName, trust("root-2")) }, []string{"backend-1", "backend-2", "other-1", "web-1", "web-2"}, []string{"+mesh_ca:secret:demo"}},
		{"service gone", func() { w.drop(mesh.Dataplanes, "other-1") }, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := map[string]*resource.Set{}
			for _, name := range fleetNames {
				before[name] = w.planner.Set(name)
			}
			test.change()
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(w.settle()))); diff != "" {
				t.Error(diff)
			}
			names := map[string]bool{}
			for name, set := range before {
				for _, c := range changed(set, w.planner.Set(name)) {
					names[c] = true
				}
			}
			if diff := cmp.Diff(test.names, slices.Sorted(maps.Keys(names))); diff != "" {
				t.Errorf("changed resources:\n%s", diff)
			}
		})
	}
}

// TestEndpointChangesOneAssignment checks what makes a large fleet cheap.
func TestEndpointChangesOneAssignment(t *testing.T) {
	w := fleet(t)
	before := w.planner.Set("web-1")
	w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("127.0.0.99", "backend", "http"))
	w.settle()
	after := w.planner.Set("web-1")
	if diff := cmp.Diff([]string{"+backend"}, changed(before, after)); diff != "" {
		t.Error(diff)
	}
	for _, shared := range []resource.TypeURL{resource.Cluster, resource.Listener, resource.Route} {
		if before.Table(shared) != after.Table(shared) {
			t.Errorf("the table of %s was made anew", shared)
		}
	}
	if w.planner.Set("web-2").Table(resource.Endpoint) != after.Table(resource.Endpoint) {
		t.Error("replicas do not share their assignments")
	}
}

// TestLastEndpointLeavesAnEmptyAssignment: a cluster without an assignment would wait.
func TestLastEndpointLeavesAnEmptyAssignment(t *testing.T) {
	w := fleet(t)
	w.drop(mesh.Dataplanes, "backend-1")
	w.drop(mesh.Dataplanes, "backend-2")
	w.settle()
	a := w.planner.Set("web-1").Get(resource.Endpoint, "backend")
	if a == nil || a.Version != resource.Empty("backend").Version {
		t.Errorf("the assignment is %v", a)
	}
}

// TestSameStateMakesTheSameBytes: two planners agree on every byte. Telling a planner that
// everything may have changed changes nothing.
func TestSameStateMakesTheSameBytes(t *testing.T) {
	w := fleet(t)
	w.under(mesh.ModePermissive)
	w.put(trafficroute.Kind, meshName, "split", split("backend", 90, 10))
	w.settle()
	w.planner.Update(w.state(), nil, true)
	if again := w.planner.Plan(); len(again) != 0 {
		t.Errorf("%d proxies changed by nothing", len(again))
	}
	before := map[string]*resource.Set{}
	for _, name := range fleetNames {
		before[name] = w.planner.Set(name)
	}
	w.restart()
	for _, name := range fleetNames {
		w.planner.Join(name)
	}
	w.planner.Plan()
	for _, name := range fleetNames {
		if !w.planner.Set(name).Equal(before[name]) {
			t.Errorf("%s differs: %v", name, changed(before[name], w.planner.Set(name)))
		}
	}
}

// TestManyChangesStayExact makes enough changes that cells are forgotten.
func TestManyChangesStayExact(t *testing.T) {
	w := fleet(t)
	for i := range 1500 {
		w.put(mesh.Dataplanes, meshName, "backend-2", dataplane(address(i), "backend", "http"))
		change := w.take()
		w.planner.Update(change.State, change.Keys, change.All)
		if got := len(w.planner.Plan()); got != 3 && i > 0 {
			t.Fatalf("%d proxies changed", got)
		}
	}
	if err := w.planner.Check(); err != nil {
		t.Error(err)
	}
}

// TestPanicOfAPolicyFailsOnePiece makes a policy panic outside of any cell. The affected piece
// keeps its last good version, and nothing else is affected.
func TestPanicOfAPolicyFailsOnePiece(t *testing.T) {
	w := fleet(t)
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == circuitbreaker.Kind {
			broken := *p
			broken.Facts = func(_ policy.World, chosen []*view.Policy) any {
				if chosen[0].Name == "bad" {
					panic("a mistake")
				}
				return nil
			}
			policies[i] = &broken
		}
	}
	planner := sidecar.New(policies, nil, logged, w.state())
	for _, name := range []string{"backend-1", "web-1"} {
		planner.Join(name)
	}
	planner.Plan()
	web, backend := planner.Set("web-1"), planner.Set("backend-1")
	w.put(circuitbreaker.Kind, meshName, "bad", breaker("web", "backend", 7))
	w.put(mesh.Meshes, "", meshName, mtls(mesh.ModePermissive))
	planner.Update(w.state(), nil, true)
	planner.Plan()
	if f := planner.Failures("web-1"); len(f) != 1 || !f[0].Kept {
		t.Errorf("failures of web: %v", f)
	}
	for _, r := range []resource.TypeURL{resource.Cluster, resource.Endpoint} {
		if a, b := web.Get(r, "backend"), planner.Set("web-1").Get(r, "backend"); a != b {
			t.Errorf("%s of the failed outbound was not kept", r)
		}
	}
	if f := planner.Failures("backend-1"); len(f) > 0 || backend.Equal(planner.Set("backend-1")) {
		t.Errorf("another proxy was held up: %v", f)
	}
}
