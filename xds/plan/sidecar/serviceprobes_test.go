package sidecar_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/probing"
	"github.com/meshgate/meshgate/xds/resource"
)

// probesOf returns what the agent of a proxy is told; nil if there is nothing.
func probesOf(t *testing.T, w *world, name string) []probing.Probe {
	t.Helper()
	r := w.planner.Set(name).Get(resource.Cluster, probing.Told)
	if r == nil {
		return nil
	}
	probes, err := probing.Read(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return probes
}

// probed is a dataplane with a probe whose inbound is ready or not.
func probed(ready bool) *mesh.Dataplane {
	d := dataplane("10.0.0.1", "web", "http", "backend")
	d.Networking.Inbound[0].ServiceProbe = &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}
	d.Networking.Inbound[0].SetReady(ready)
	return d
}

// TestReadinessChangesNothingElse: when the mesh learns whether a workload is there, its agent is
// told, and nothing that its Envoy uses changes.
func TestReadinessChangesNothingElse(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", probed(false))
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	before := w.planner.Set("web-1")
	if p := probesOf(t, w, "web-1"); len(p) != 1 || p[0].Ready {
		t.Fatal(p)
	}
	w.put(mesh.Dataplanes, meshName, "web-1", probed(true))
	w.settle()
	after := w.planner.Set("web-1")
	if p := probesOf(t, w, "web-1"); len(p) != 1 || !p[0].Ready {
		t.Error(p)
	}
	for _, typ := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		was, is := map[string]string{}, map[string]string{}
		for out, set := range map[*map[string]string]*resource.Set{&was: before, &is: after} {
			for _, r := range set.All(typ) {
				if r.Name != probing.Told {
					(*out)[r.Name] = r.Version
				}
			}
		}
		if diff := cmp.Diff(was, is); diff != "" || len(was) == 0 {
			t.Errorf("%s: %s", typ, diff)
		}
	}
	d := probed(true)
	d.Networking.Inbound[0].ServiceProbe = nil
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.settle()
	if p := probesOf(t, w, "web-1"); p != nil {
		t.Error(p)
	}
}

// TestTooManyProbes: of what was stored by other rules, what an agent cannot probe is left out.
func TestTooManyProbes(t *testing.T) {
	d := probed(false)
	one := d.Networking.Inbound[0]
	for range 2 {
		d.Networking.Inbound = append(d.Networking.Inbound, one)
	}
	for i := range probing.Max {
		one.Port = uint32(10_000 + i)
		d.Networking.Inbound = append(d.Networking.Inbound, one)
	}
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	if p := probesOf(t, w, "web-1"); len(p) != probing.Max {
		t.Error(len(p))
	}
	n := 0
	for _, f := range w.planner.Failures("web-1") {
		switch f.Err.Error() {
		case "its workload is not probed: another inbound listens on port 8080", "its workload is not probed: no more than 100 inbounds are probed":
			n++
		}
	}
	if n != 3 {
		t.Error(w.planner.Failures("web-1"))
	}
}

// TestNoTemplateTouchesProbes: what agents are told is not for templates.
func TestNoTemplateTouchesProbes(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", probed(false))
	w.raw(`
type: ProxyTemplate
mesh: demo
name: all
selectors: [{match: {mesh.io/service: "*"}}]
conf: {imports: [default-proxy], modifications: [{cluster: {operation: remove, match: {name: '@probes'}}}]}
`)
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	if p := probesOf(t, w, "web-1"); len(p) != 1 {
		t.Error(p, w.planner.Failures("web-1"))
	}
}
