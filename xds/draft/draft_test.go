package draft

import (
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestSlots: filters run in the order of their slots, not of their arrival, and
// none is there twice.
func TestSlots(t *testing.T) {
	var s Slots
	for _, put := range []struct {
		slot Slot
		name string
	}{{SlotRouter, "router"}, {SlotAccess, "access"}, {SlotFault, "delay"}, {SlotFault, "abort"}} {
		if err := s.Put(put.slot, &hcmv3.HttpFilter{Name: put.name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(SlotFault, &hcmv3.HttpFilter{Name: "delay"}); err == nil {
		t.Error("a second filter of one name was taken")
	}
	var got []string
	for _, f := range s.Filters() {
		got = append(got, f.GetName())
	}
	if diff := cmp.Diff([]string{"access", "delay", "abort", "router"}, got); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
}

// TestActions yields what leads to clusters and nothing else.
func TestActions(t *testing.T) {
	a, b := &routev3.RouteAction{}, &routev3.RouteAction{}
	r := &Routes{Host: &routev3.VirtualHost{Routes: []*routev3.Route{
		{Action: &routev3.Route_Route{Route: a}},
		{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}}},
		{Action: &routev3.Route_Route{Route: b}},
	}}}
	if got := slices.Collect(r.Actions()); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("actions are %v", got)
	}
	for range r.Actions() {
		break
	}
}

// TestFilters: a filter carries its configuration, and one that breaks the rules
// of its proto is an error.
func TestFilters(t *testing.T) {
	f, err := HTTPFilter("access", &httprbacv3.RBAC{})
	if err != nil || f.GetName() != "access" || f.GetTypedConfig() == nil {
		t.Errorf("filter is %v, %v", f, err)
	}
	n, err := NetworkFilter("access", &netrbacv3.RBAC{StatPrefix: "x"})
	if err != nil || n.GetName() != "access" || n.GetTypedConfig() == nil {
		t.Errorf("filter is %v, %v", n, err)
	}
	if _, err := NetworkFilter("access", &netrbacv3.RBAC{}); err == nil {
		t.Error("a filter without its mandatory prefix was taken")
	}
	r := &Routes{Host: &routev3.VirtualHost{}}
	if err := r.Configure("access", &httprbacv3.RBACPerRoute{}); err != nil || r.Host.GetTypedPerFilterConfig()["access"] == nil {
		t.Errorf("table is %v, %v", r.Host, err)
	}
}

// TestTargets lists the targets of rules before the others.
func TestTargets(t *testing.T) {
	target := func(v string) []Destination { return []Destination{{Tags: mesh.Tags{"v": v}, Weight: 1}} }
	s := &Split{Rules: []Rule{{To: target("a")}, {To: target("b")}}, Otherwise: target("c")}
	var got []string
	for _, x := range s.Destinations() {
		got = append(got, x.Tags["v"])
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// TestAsk: a share of a route and a route alone ask for a host, unless the route demands
// one itself.
func TestAsk(t *testing.T) {
	alone := Target{Action: &routev3.RouteAction{}}
	alone.Ask("a.example")
	if alone.Action.GetHostRewriteLiteral() != "a.example" {
		t.Errorf("the route is %v", alone.Action)
	}
	share := Target{Action: &routev3.RouteAction{}, Weight: &routev3.WeightedCluster_ClusterWeight{}}
	share.Ask("a.example")
	if share.Weight.GetHostRewriteLiteral() != "a.example" || share.Action.GetHostRewriteSpecifier() != nil {
		t.Errorf("the share is %v of %v", share.Weight, share.Action)
	}
	demanded := Target{
		Action: &routev3.RouteAction{HostRewriteSpecifier: &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: "b.example"}},
		Weight: &routev3.WeightedCluster_ClusterWeight{},
	}
	demanded.Ask("a.example")
	if demanded.Weight.GetHostRewriteSpecifier() != nil || demanded.Action.GetHostRewriteLiteral() != "b.example" {
		t.Errorf("what was demanded becomes %v of %v", demanded.Weight, demanded.Action)
	}
}

// TestCarry: routes say what was said of all of them, but where they said something
// themselves; what they cannot say is an error.
func TestCarry(t *testing.T) {
	all, own := &routev3.RetryPolicy{RetryOn: "all"}, &routev3.RetryPolicy{RetryOn: "own"}
	host := &routev3.VirtualHost{Name: "a", Domains: []string{"*"}, RetryPolicy: all, Routes: []*routev3.Route{
		{Action: &routev3.Route_Route{Route: &routev3.RouteAction{}}},
		{Action: &routev3.Route_Route{Route: &routev3.RouteAction{RetryPolicy: own, IdleTimeout: durationpb.New(1)}}},
		{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}}},
	}}
	r := &Routes{Proto: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{host}}, Host: host}
	if err := r.Configure("access", &httprbacv3.RBACPerRoute{}); err != nil {
		t.Fatal(err)
	}
	before := r.Clone()
	if err := r.Carry(durationpb.New(2)); err != nil {
		t.Fatal(err)
	}
	first, second, third := host.GetRoutes()[0], host.GetRoutes()[1], host.GetRoutes()[2]
	if first.GetRoute().GetRetryPolicy() != all || first.GetRoute().GetIdleTimeout().GetNanos() != 2 {
		t.Errorf("the first is %v", first)
	}
	if second.GetRoute().GetRetryPolicy() != own || second.GetRoute().GetIdleTimeout().GetNanos() != 1 {
		t.Errorf("the second is %v", second)
	}
	if third.GetTypedPerFilterConfig()["access"] == nil || host.GetRetryPolicy() != nil || host.GetTypedPerFilterConfig() != nil {
		t.Errorf("the third is %v of %v", third, host)
	}
	if before.Host.GetRetryPolicy() == nil || before.Host != before.Proto.GetVirtualHosts()[0] || before.Host.GetRoutes()[0].GetRoute().GetRetryPolicy() != nil {
		t.Errorf("the clone becomes %v", before.Host)
	}
	before.Host.RequireTls = routev3.VirtualHost_ALL
	if err := before.Carry(nil); err == nil {
		t.Error("what no route can say is lost")
	}
}
