package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const s = time.Second

var (
	clusterA  = xdstest.Cluster("a", s)
	clusterA2 = xdstest.Cluster("a", 2*s)
	clusterB  = xdstest.Cluster("b", s)
	endA      = xdstest.Endpoints("a", 1001)
	endB      = xdstest.Endpoints("b", 1002)
	listener  = xdstest.Listener("in", 1000, "r")
	routesA   = xdstest.Routes("r", "a", 0)
	routesB   = xdstest.Routes("r", "b", 0)
)

func world() []*resource.Resource { return []*resource.Resource{clusterA, endA, listener, routesA} }

// started returns a proxy that holds the resources of world.
func started(t *testing.T, r *rig, opt xdstest.Options) *xdstest.Client {
	t.Helper()
	rev := r.publish(world()...)
	c := r.dial(t, opt)
	c.Request(resource.Route).Equals(t, routesA)
	r.settle(t, rev)
	return c
}

func want(t *testing.T, got []xdstest.Message, expected ...xdstest.Message) {
	t.Helper()
	if d := cmp.Diff(expected, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("messages (-want +got):\n%s", d)
	}
}

func TestTrapStartWarmsThenListens(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	c.Request(resource.Cluster).Equals(t, clusterA)
	c.Request(resource.Endpoint).Equals(t, endA)
	c.Request(resource.Listener).Equals(t, listener)
	c.WaitFor(t, "all warm", func(v xdstest.View) bool { return v.Warming() == 0 })
}

func TestTrapChangedClusterGetsItsAssignmentAgain(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	n := len(c.Messages())
	r.settle(t, r.publish(clusterA2, endA, listener, routesA))
	c.WaitFor(t, "warm again", func(v xdstest.View) bool { return v.Warming() == 0 })
	want(t, sent(c, n), xdstest.Message{Type: resource.Cluster, Names: []string{"a"}},
		xdstest.Message{Type: resource.Endpoint, Names: []string{"a"}})
}

func TestTrapChangedClusterWithoutEndpointsWarms(t *testing.T) {
	r := setup(t, nil)
	r.publish(clusterA)
	c := r.dial(t, xdstest.Options{})
	c.Request(resource.Endpoint).Equals(t, resource.Empty("a"))
	r.settle(t, r.publish(clusterA2))
	c.WaitFor(t, "warm", func(v xdstest.View) bool { return v.Warming() == 0 && len(v.Names(resource.Cluster)) == 1 })
}

func TestTrapRemovedEDSIsSentEmpty(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	r.settle(t, r.publish(clusterA, listener, routesA))
	c.Request(resource.Endpoint).Equals(t, resource.Empty("a"))
}

func TestTrapRenameAddsBeforeRemoving(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	n := len(c.Messages())
	r.settle(t, r.publish(clusterB, endB, listener, routesB))
	c.Request(resource.Cluster).Equals(t, clusterB)
	c.Request(resource.Endpoint).Equals(t, endB)
	var order []string
	for _, m := range sent(c, n) {
		for _, x := range m.Names {
			order = append(order, "+"+x)
		}
		for _, x := range m.Removed {
			order = append(order, "-"+x)
		}
	}
	// The assignment is sent right after its cluster, and again when the proxy asks for it.
	got := order[:4]
	if d := cmp.Diff([]string{"+b", "+b", "+r", "-a"}, got); d != "" {
		t.Fatalf("order (-want +got):\n%s\nall %v", d, order)
	}
}

func TestTrapClusterAnswerIsWithheldWhileWarming(t *testing.T) {
	r := setup(t, nil)
	started(t, r, xdstest.Options{})
	c := r.dial(t, xdstest.Options{Hold: true}) // answers nothing at all
	c.Request(resource.Endpoint).Equals(t, endA)
	r.publish(clusterA2, endA, listener, routesA)
	c.Request(resource.Cluster).Equals(t, clusterA2)
	r.publish(clusterA2, clusterB, endA, endB, listener, routesA)
	c.Request(resource.Cluster).Equals(t, clusterA2, clusterB)
}

func TestTrapReconnectSendsNothingAndRemovesWhatIsGone(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	versions, names := c.Versions()
	c.Close()
	opt := xdstest.Options{Versions: versions, Subscribed: names}
	back := r.dial(t, opt)
	r.settle(t, r.rev)
	want(t, back.Messages())
	back.Close()

	versions[resource.Cluster]["gone"] = "v"
	again := r.dial(t, opt)
	again.WaitFor(t, "the removal", func(v xdstest.View) bool { return len(v.Messages()) > 0 })
	want(t, again.Messages(), xdstest.Message{Type: resource.Cluster, Removed: []string{"gone"}})
}

func TestTrapRefusedBytesAreNotRepeated(t *testing.T) {
	r := setup(t, nil)
	bad := xdstest.Routes("r", "bad", 0)
	seen := 0
	r.publish(world()...)
	c := r.dial(t, xdstest.Options{Reject: func(u resource.TypeURL, _ []string) string {
		if u != resource.Route {
			return ""
		}
		seen++
		if seen == 2 {
			return "route is bad"
		}
		return ""
	}})
	c.Request(resource.Route).Equals(t, routesA)
	p := r.settle(t, r.publish(clusterA, endA, listener, bad))
	if len(p.Rejected) != 1 || p.Rejected[0].Error != "r: route is bad" || p.Rejected[0].Name != nodeID || len(p.Acknowledged) != 0 {
		t.Fatalf("progress %+v", p)
	}
	n := len(c.Messages())
	// Other content is still sent; the refused bytes are not sent again.
	for i := range 5 {
		r.settle(t, r.publish(clusterA, xdstest.Endpoints("a", 2000+i), listener, bad))
	}
	for _, m := range sent(c, n) {
		if m.Type == resource.Route {
			t.Fatalf("the refused routes were repeated: %+v", m)
		}
	}
	p = r.settle(t, r.publish(clusterA, endA, listener, routesB))
	c.Request(resource.Route).Equals(t, routesB)
	if len(p.Rejected) != 0 || len(p.Acknowledged) != 1 {
		t.Fatalf("after the correction: %+v", p)
	}
}

func TestTrapRefusedContentIsRemovedWhenItGoes(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	c := r.dial(t, xdstest.Options{Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Listener && len(names) > 0 && names[0] == "bad" {
			return "bad: port in use"
		}
		return ""
	}})
	c.Request(resource.Route).Equals(t, routesA)
	r.settle(t, r.publish(append(world(), xdstest.Listener("bad", 1, "r"))...))
	n := len(c.Messages())
	r.settle(t, r.publish(world()...))
	want(t, sent(c, n), xdstest.Message{Type: resource.Listener, Removed: []string{"bad"}})
}

func TestTrapUnknownSubscriptionsDoNotHang(t *testing.T) {
	// The proxy never asks for secrets; nothing waits for them.
	r := setup(t, nil)
	r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(world(), map[string]string{"identity": ""})}, 1)
	c := r.dial(t, xdstest.Options{})
	c.Request(resource.Route).Equals(t, routesA)
	r.rev = 1
	r.settle(t, 1)
}

func TestOneRouteTableOfManyIsSentAlone(t *testing.T) {
	r := setup(t, nil)
	rs := []*resource.Resource{}
	for i := range 1000 {
		rs = append(rs, xdstest.Routes(fmt.Sprintf("r%04d", i), "a", 0))
	}
	rev := r.publish(rs...)
	c := r.dial(t, xdstest.Options{Relay: true})
	c.WaitFor(t, "an answer for each type", func(v xdstest.View) bool { return len(v.Messages()) == len(resource.Types) })
	c.Request(resource.Route).Equals(t, rs...)
	r.settle(t, rev)
	n := len(c.Messages())
	rs[500] = xdstest.Routes("r0500", "b", 0)
	r.settle(t, r.publish(rs...))
	want(t, sent(c, n), xdstest.Message{Type: resource.Route, Names: []string{"r0500"}})
	n = len(c.Messages())
	rs[500] = xdstest.Routes("r0500", "b", 0) // other pointers, same bytes
	p := r.settle(t, r.publish(rs...))
	if p.Published != 3 || len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v", p)
	}
	want(t, sent(c, n))
}

func TestSlowProxyGetsTheLatestStateOnly(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	c.Close()
	c = r.dial(t, xdstest.Options{Relay: true, Hold: true})
	c.Request(resource.Route).Equals(t, routesA)
	var last *resource.Resource
	for i := range 50 {
		last = xdstest.Routes("r", fmt.Sprintf("c%d", i), 0)
		r.publish(clusterA, endA, listener, last)
	}
	routes := 0
	for _, m := range c.Messages() {
		if m.Type == resource.Route {
			routes++
		}
	}
	if routes > 4 {
		t.Fatalf("%d responses are unanswered", routes)
	}
	c.Release()
	c.Request(resource.Route).Equals(t, last)
	r.settle(t, r.rev)
	routes = 0
	for _, m := range c.Messages() {
		if m.Type == resource.Route {
			routes++
		}
	}
	if routes > 5 {
		t.Fatalf("%d responses were sent, of which one after the answers is enough", routes)
	}
}

func TestTrapAssignmentThatComesLaterStillPrecedesRoutes(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	n := len(c.Messages())
	// This imitates a relay, whose own upstream sends type by type.
	r.publish(clusterA, clusterB, endA, listener, routesA)
	r.publish(clusterA, clusterB, endA, endB, listener, routesA)
	r.settle(t, r.publish(clusterA, clusterB, endA, endB, listener, routesB))
	c.Request(resource.Endpoint).Equals(t, endA, endB)
	assigned := false
	for _, m := range sent(c, n) {
		if m.Type == resource.Endpoint {
			assigned = true
		}
		if m.Type == resource.Route && !assigned {
			t.Fatalf("routes came before the assignment: %+v", sent(c, n))
		}
	}
}

// TestTrapTextThatLooksLikeARouteTable: only the name by which a listener asks for routes
// counts. A route table that no listener asks for does not prevent a confirmation, even if
// other text in a listener equals its name.
func TestTrapTextThatLooksLikeARouteTable(t *testing.T) {
	r := setup(t, nil)
	started(t, r, xdstest.Options{})
	r.settle(t, r.publish(append(world(), xdstest.Routes("in", "a", 0), xdstest.Routes("router", "a", 0))...))
}

// A returning proxy asks for clusters first and then says which assignments it has. A cluster
// that changed meanwhile warms until its assignment arrives again, whatever version the proxy
// reports.
func TestTrapChangedClusterAfterReconnectIsFollowedByItsAssignment(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	versions, names := c.Versions()
	c.Close()
	rev := r.publish(clusterA2, endA, listener, routesA)
	back := r.dial(t, xdstest.Options{Versions: versions, Subscribed: names})
	back.WaitFor(t, "the changed cluster, warm", func(v xdstest.View) bool {
		return v.Version(resource.Cluster, "a") == clusterA2.Version && v.Warming() == 0
	})
	r.settle(t, rev)
	want(t, back.Messages(), xdstest.Message{Type: resource.Cluster, Names: []string{"a"}},
		xdstest.Message{Type: resource.Endpoint, Names: []string{"a"}})
}

// A type that is not served here is answered with nothing, in either variant. Layers of
// runtime values are reported as absent. The stream goes on.
func TestTrapUnknownTypeIsAnsweredEmpty(t *testing.T) {
	const unknown = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	t.Run("delta", func(t *testing.T) {
		r := setup(t, nil)
		r.publish(world()...)
		g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(m *discovery.DeltaDiscoveryRequest) *discovery.DeltaDiscoveryResponse {
			t.Helper()
			if err := g.Send(m); err != nil {
				t.Fatal(err)
			}
			got, err := g.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := ask(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: unknown, ResourceNamesSubscribe: []string{"x"}})
		if got.GetTypeUrl() != unknown || len(got.GetResources()) != 0 || got.GetNonce() == "" {
			t.Fatalf("the answer is %v", got)
		}
		if diff := cmp.Diff([]string{"x"}, got.GetRemovedResources()); diff != "" {
			t.Fatalf("absent (-want +got):\n%s", diff)
		}
		again := ask(&discovery.DeltaDiscoveryRequest{TypeUrl: unknown, ResourceNamesSubscribe: []string{"*", "y"}, ResponseNonce: got.GetNonce()})
		if diff := cmp.Diff([]string{"y"}, again.GetRemovedResources()); diff != "" || again.GetNonce() == got.GetNonce() {
			t.Fatalf("a further name is answered by %v", again)
		}
		// An acknowledgement is not answered, and neither is a repeated request.
		for _, nonce := range []string{got.GetNonce(), ""} {
			if err := g.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: unknown, ResponseNonce: nonce}); err != nil {
				t.Fatal(err)
			}
		}
		if got := ask(&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Cluster)}); got.GetTypeUrl() != string(resource.Cluster) || len(got.GetResources()) != 1 {
			t.Fatalf("after that: %v", got)
		}
	})
	t.Run("state of the world", func(t *testing.T) {
		r := setup(t, nil)
		r.publish(world()...)
		g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{unknown, string(resource.Cluster)} {
			if err := g.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: url}); err != nil {
				t.Fatal(err)
			}
			got, err := g.Recv()
			if err != nil || got.GetTypeUrl() != url || (len(got.GetResources()) == 0) != (url == unknown) {
				t.Fatalf("%s is answered by %v, %v", url, got, err)
			}
		}
	})
}

// A client cannot fill the memory of the server with ever new types.
func TestUnknownTypesAreBounded(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := g.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: fmt.Sprintf("t%d", i)}); err != nil {
			break // the stream has ended
		}
	}
	answers := 0
	for ; err == nil; answers++ {
		_, err = g.Recv()
	}
	if status.Code(err) != codes.InvalidArgument || answers > 50 {
		t.Fatalf("%d answers, then %v", answers, err)
	}
}
