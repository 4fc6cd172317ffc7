package gateway

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestRouteThatFailsDoesNotStayOpen: a route gets a plugin while something of it
// cannot be made. It must not go on as the route without the plugin.
func TestRouteThatFailsDoesNotStayOpen(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	p := NewPlanner(testParams)
	asked := func() (string, []plan.Failure) {
		got := p.Plan(w.state())
		return evaluate(t, got.Set, request{method: "GET", scheme: "http", host: "x", path: "/a"}), got.Failures
	}
	if got, _ := asked(); got != "to "+id(2, 0)+" /" {
		t.Fatalf("an open route leads %s", got)
	}
	bad := serviceSpec("")
	bad.Host = "a\x00b" // no header can say this
	w.put(gateway.Services, id(1, 0), 2, bad)
	w.put(gateway.Plugins, id(3, 0), 2, pluginSpec(t, id(2, 0), "", nil))
	got, failures := asked()
	if got != "503 "+id(2, 0) {
		t.Errorf("with a plugin that it cannot have it leads %s", got)
	}
	if len(failures) == 0 {
		t.Error("nobody is told")
	}
}

// TestClusterThatFailsDoesNotStayUnverified: a service is to verify its server,
// and the proxy has no roots to do it with. Requests must not go on to the server
// that nobody verifies.
func TestClusterThatFailsDoesNotStayUnverified(t *testing.T) {
	params := testParams
	params.RootsFile = ""
	w := newWorld(t)
	s := serviceSpec("")
	s.Protocol, s.TLSVerify = "https", new(false)
	w.put(gateway.Services, id(1, 0), 1, s)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	p := NewPlanner(params)
	p.Plan(w.state())
	verified := *s
	verified.TLSVerify = new(true)
	w.put(gateway.Services, id(1, 0), 2, &verified)
	got := p.Plan(w.state())
	if lead := evaluate(t, got.Set, request{method: "GET", scheme: "http", host: "x", path: "/a"}); lead != "503 "+id(2, 0) {
		t.Errorf("it leads %s", lead)
	}
	for _, r := range got.Set.All(resource.Cluster) {
		if r.Name != "oauth2" {
			t.Errorf("cluster %s is still there", r.Name)
		}
	}
	if len(got.Failures) != 2 || got.Failures[1].Kept {
		t.Errorf("failures are %+v", got.Failures)
	}
}
