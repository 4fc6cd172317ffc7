package sidecar_test

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestTemplatesLeaveNothingBehind: of what a template removes, a proxy keeps neither assignments
// nor route tables nor keys, and has all of them again without the template.
func TestTemplatesLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend", "bank"))
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte(clientPEM + rootCA)})
	w.put(mesh.ExternalServices, meshName, "bank", presenting("bank.example:443", "bank", "client"))
	before := w.joined("web-1")
	keys := func(s *resource.Set) (n int) {
		for _, name := range s.Secrets() {
			if _, is := mesh.ParseExternalClient(name); is {
				n++
			}
		}
		return n
	}
	has := func(s *resource.Set) []int {
		return []int{len(s.All(resource.Listener)), len(s.All(resource.Endpoint)), len(s.All(resource.Route)), keys(s)}
	}
	if slices.Contains(has(before), 0) {
		t.Fatalf("the proxy has too little: %v", has(before))
	}
	template := func(change proxytemplate.Modification, imports ...string) *proxytemplate.Spec {
		return &proxytemplate.Spec{Conf: &proxytemplate.Conf{Imports: imports, Modifications: []proxytemplate.Modification{change}}}
	}
	remove := &proxytemplate.Change{Operation: "remove"}
	w.put(proxytemplate.Kind, meshName, "x", template(proxytemplate.Modification{Cluster: remove}))
	w.settle()
	if got := has(w.planner.Set("web-1")); !slices.Equal(got, []int{0, 0, 0, 0}) {
		t.Errorf("without imports the proxy has %v", got)
	}
	// Of the listeners only that of the inbound stays, and of the tables only that of the inbound.
	w.put(proxytemplate.Kind, meshName, "x", template(proxytemplate.Modification{Listener: remove}, "default-proxy"))
	w.settle()
	if got := has(w.planner.Set("web-1")); got[0] != 1 || got[2] != 1 {
		t.Errorf("without outbounds the proxy has %v", got)
	}
	w.drop(proxytemplate.Kind, "x")
	w.settle()
	if !w.planner.Set("web-1").Equal(before) {
		t.Error("the template is gone, and the proxy has something else than before")
	}
}

// TestEmptySetIsASet: a proxy that a template leaves nothing joins as any other does.
func TestEmptySetIsASet(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http"))
	w.put(proxytemplate.Kind, meshName, "x", &proxytemplate.Spec{Conf: &proxytemplate.Conf{}})
	w.settle()
	w.planner.Join("web-1")
	if changed := w.settle(); !changed["web-1"] || w.planner.Set("web-1") == nil {
		t.Errorf("changed are %v, the set is %v", changed, w.planner.Set("web-1"))
	}
}
