package edge

import (
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestRouteThatFailsDoesNotStayOpen: a route gets a plugin while a part of it cannot be built.
// It must not continue to serve without the plugin.
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
	bad.Host = "a\x00b" // no header can contain this
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

// TestClusterThatFailsDoesNotStayUnverified: a service is changed to verify its server, but
// the proxy has no roots to do so. Requests must not continue to go to the unverified server.
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

// TestHostsBelongToTheClusterThatIsThere: a cluster that cannot be rebuilt stays as it was.
// Its routes must not take the Host from endpoints that have none, because then the client's
// own Host would reach them.
func TestHostsBelongToTheClusterThatIsThere(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	p := NewPlanner(testParams)
	taking := func() *routev3.RouteAction {
		return taken(t, p.Plan(w.state()).Set, request{method: "GET", scheme: "http", host: "x", path: "/p"}).GetRoute()
	}
	before := taking()
	failing := &gateway.Upstream{Name: "pool.test", Healthchecks: gateway.Healthchecks{Active: gateway.ActiveCheck{
		Type: gateway.CheckGRPC, Timeout: 1, Healthy: gateway.ProbedHealthy{Interval: 1},
	}}}
	w.put(gateway.Upstreams, id(5, 1), 1, failing)
	w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "up.test:80", Weight: 1})
	if got := taking(); got.GetCluster() != before.GetCluster() || got.GetHostRewriteLiteral() != "Pool.test:9000" {
		t.Errorf("an old cluster of addresses is led to by %v", got)
	}
	w.put(gateway.Upstreams, id(5, 1), 1, &gateway.Upstream{Name: "pool.test"})
	named := taking()
	if named.GetCluster() == before.GetCluster() || !named.GetAutoHostRewrite().GetValue() {
		t.Errorf("a cluster with a name is led to by %v", named)
	}
	w.put(gateway.Upstreams, id(5, 1), 1, failing)
	w.drop(gateway.Targets, id(6, 2))
	if got := taking(); got.GetCluster() != named.GetCluster() || !got.GetAutoHostRewrite().GetValue() {
		t.Errorf("an old cluster with a name is led to by %v", got)
	}
}

// TestClusterWithOtherNamesIsNotKept: a cluster that trusts the names of earlier targets is
// dropped if it cannot be rebuilt for the current ones.
func TestClusterWithOtherNamesIsNotKept(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	s := serviceSpec("")
	s.Protocol, s.Host = "https", "pool.test"
	w.put(gateway.Services, id(1, 1), 1, s)
	w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "old.test:80", Weight: 1})
	p := NewPlanner(testParams)
	req := request{method: "GET", scheme: "http", host: "x", path: "/p"}
	if got := evaluate(t, p.Plan(w.state()).Set, req); got != "to "+id(2, 1)+" /" {
		t.Fatalf("it leads %s", got)
	}
	w.put(gateway.Upstreams, id(5, 1), 1, &gateway.Upstream{Name: "pool.test", Algorithm: "unknown"})
	if got := evaluate(t, p.Plan(w.state()).Set, req); got != "to "+id(2, 1)+" /" {
		t.Errorf("with the same names it leads %s", got)
	}
	w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "new.test:80", Weight: 1})
	if got := evaluate(t, p.Plan(w.state()).Set, req); got != "503 "+id(2, 1) {
		t.Errorf("with other names it leads %s", got)
	}
}

// TestKeptClusterKeepsItsTargets: a cluster of addresses that cannot be rebuilt still waits
// for its assignment. Without one, a starting proxy has no target for it. With a name in it,
// Envoy refuses the assignments of all clusters.
func TestKeptClusterKeepsItsTargets(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	p := NewPlanner(testParams)
	before := p.Plan(w.state()).Set
	cluster := clusterOf(t, before)
	failing := &gateway.Upstream{Name: "pool.test", Algorithm: "unknown"}
	w.put(gateway.Upstreams, id(5, 1), 1, failing)
	w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "up.test:80", Weight: 1})
	after := p.Plan(w.state())
	if clusterOf(t, after.Set) != cluster || after.Set.Get(resource.Endpoint, cluster) != before.Get(resource.Endpoint, cluster) {
		t.Errorf("cluster %s has the assignment %v", clusterOf(t, after.Set), after.Set.Get(resource.Endpoint, cluster))
	}
	w.drop(gateway.Targets, id(6, 2))
	w.put(gateway.Targets, id(6, 3), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.0.0.2:80", Weight: 1})
	if got := changed(after.Set, p.Plan(w.state()).Set); !slices.Equal(got, []string{cluster}) {
		t.Errorf("another address changes %v", got)
	}
	w.put(gateway.Upstreams, id(5, 1), 1, &gateway.Upstream{Name: "pool.test"})
	w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "up.test:80", Weight: 1})
	p.Plan(w.state())
	w.put(gateway.Upstreams, id(5, 1), 1, failing)
	w.drop(gateway.Targets, id(6, 2))
	if got := p.Plan(w.state()).Set; got.Len(resource.Endpoint) != 0 {
		t.Error("a cluster with names of its own has an assignment, too")
	}
}
