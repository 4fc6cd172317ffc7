package sidecar_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

// transparent returns a proxy that serves a service at an address and reaches everything.
func transparent(address, service, protocol string) *mesh.Dataplane {
	d := dataplane(address, service, protocol)
	d.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001}
	return d
}

// TestRoutesBearNoTags: proxies with different tags use the same route table. No table lets a
// workload set tags itself.
func TestRoutesBearNoTags(t *testing.T) {
	w := newWorld(t)
	for name, service := range map[string]string{"a-1": "a", "b-1": "b"} {
		w.put(mesh.Dataplanes, meshName, name, transparent("127.0.0."+map[string]string{"a": "1", "b": "2"}[service], service, "http"))
	}
	a, b := w.joined("a-1"), w.joined("b-1")
	for _, name := range []string{"outbound:a", "outbound:b"} {
		x, y := a.Get(resource.Route, name), b.Get(resource.Route, name)
		if x == nil || y == nil || x.Version != y.Version {
			t.Errorf("%s is not one table", name)
		}
		if r := load(t, x, new(routev3.RouteConfiguration)); !slices.Contains(r.GetRequestHeadersToRemove(), mesh.HeaderTags) {
			t.Errorf("%s removes %v", name, r.GetRequestHeadersToRemove())
		}
	}
}

// alike sets up transparent proxies, each with a service of its own.
func alike(w *world, services ...string) {
	for i, service := range services {
		w.put(mesh.Dataplanes, meshName, service+"-1", transparent(fmt.Sprintf("127.0.0.%d", i+1), service, "http"))
	}
	w.settle()
	for _, service := range services {
		w.planner.Join(service + "-1")
	}
	w.settle()
}

// TestProxiesShareWhatTheyReach: proxies of different services that reach the same services by
// the same policies share one table per type, except for their own resources, whatever
// changes.
func TestProxiesShareWhatTheyReach(t *testing.T) {
	w := newWorld(t)
	alike(w, "a", "b", "c")
	shared := func(what string, reaches int) {
		t.Helper()
		w.settle()
		if got := w.planner.Reaches(); got != reaches {
			t.Errorf("%s: %d lists of outbounds are planned, not %d", what, got, reaches)
		}
		for _, kind := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
			b, c := w.planner.Set("b-1").Table(kind).Root(), w.planner.Set("c-1").Table(kind).Root()
			if b != c {
				t.Errorf("%s: %s is not shared", what, kind)
			}
		}
	}
	shared("at first", 1)
	w.put(circuitbreaker.Kind, meshName, "all", breaker("*", "*", 7))
	shared("a policy for all", 1)
	w.put(mesh.Dataplanes, meshName, "b-2", dataplane("127.0.0.9", "b", "http"))
	shared("an endpoint", 1)
	w.put(circuitbreaker.Kind, meshName, "one", breaker("a", "*", 8))
	shared("a policy for one", 2)
	if x, y := w.planner.Set("a-1").Get(resource.Cluster, "b"), w.planner.Set("b-1").Get(resource.Cluster, "b"); x.Version == y.Version {
		t.Error("a policy for one has no effect, or one for all")
	}
	w.put(circuitbreaker.Kind, meshName, "one", breaker("a", "*", 9))
	shared("another version of it", 2)
	w.drop(circuitbreaker.Kind, "one")
	shared("no policy for one", 1)
	if x, y := w.planner.Set("a-1").Table(resource.Cluster).Root(), w.planner.Set("b-1").Table(resource.Cluster).Root(); x != y {
		t.Error("who came back does not share")
	}
	w.put(trafficpermission.Kind, meshName, "one", permission("a", "b"))
	shared("a permission", 1)
}

// TestWhatOneProxyLeavesBehind: policies for a shared reach are never chosen by the sources of
// a proxy that has left it.
func TestWhatOneProxyLeavesBehind(t *testing.T) {
	for _, first := range []string{"a", "b", "c"} {
		w := newWorld(t)
		alike(w, "a", "b", "c")
		w.together = func() []string { return []string{"a-1", "b-1", "c-1"} }
		w.put(circuitbreaker.Kind, meshName, "one", breaker(first, "*", 8))
		w.settle()
		w.put(circuitbreaker.Kind, meshName, "all", breaker("*", "*", 9))
		w.settle()
	}
}

// TestWhoLeavesKeepsWhatWasGood: a policy that cannot be built is chosen for one proxy. The
// proxy keeps what it shared with others until then, and this does not hold up the others.
func TestWhoLeavesKeepsWhatWasGood(t *testing.T) {
	w := newWorld(t)
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == circuitbreaker.Kind {
			broken := *p
			broken.Cluster = func(d *draft.Cluster, s *policy.Selection) error {
				if s.Policies[0].Name == "one" {
					return errors.New("a mistake")
				}
				return p.Cluster(d, s)
			}
			policies[i] = &broken
		}
	}
	w.planner = sidecar.New(policies, w.outside, logged, w.take().State)
	alike(w, "a", "b")
	before := w.planner.Set("a-1").Get(resource.Cluster, "b")
	w.put(circuitbreaker.Kind, meshName, "one", breaker("a", "*", 8))
	w.settle()
	if got := w.planner.Set("a-1").Get(resource.Cluster, "b"); got == nil || got.Version != before.Version {
		t.Error("the cluster did not stay")
	}
	if f := w.planner.Failures("a-1"); len(f) != 2 || !f[0].Kept {
		t.Errorf("failures are %v", f)
	}
	w.put(circuitbreaker.Kind, meshName, "all", breaker("*", "*", 9))
	w.settle()
	if got := w.planner.Set("b-1").Get(resource.Cluster, "b"); got.Version == before.Version || len(w.planner.Failures("b-1")) > 0 {
		t.Error("the failure of one concerns the other")
	}
	w.drop(circuitbreaker.Kind, "one")
	w.settle()
	if f := w.planner.Failures("a-1"); len(f) > 0 || w.planner.Set("a-1").Get(resource.Cluster, "b").Version == before.Version {
		t.Errorf("failures are %v", f)
	}
}
