package relay_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// planePort is a port of the control plane that the machine may come to guard.
const planePort = 5681

// guarding returns bounds that guard a port once they are told to.
func guarding(guarded *atomic.Bool) machine.Bounds {
	return machine.Bounds{Trusting: func() []uint16 {
		if guarded.Load() {
			return []uint16{planePort}
		}
		return nil
	}}
}

func planeAddress() *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: planePort},
	}}}
}

// leadingToPlane returns a cluster, an assignment and a listener that lead to the control plane. The
// cluster and the listener can be had only whole, of the assignment there is a rest.
func leadingToPlane(t *testing.T) (cluster, assignment, leads *resource.Resource) {
	t.Helper()
	resolver, err := anypb.New(&caresv3.CaresDnsResolverConfig{Resolvers: []*corev3.Address{planeAddress()}})
	if err != nil {
		t.Fatal(err)
	}
	by := &corev3.TypedExtensionConfig{Name: "any", TypedConfig: resolver}
	cluster = xdstest.Freeze(resource.Cluster, "names", &clusterv3.Cluster{Name: "names", TypedDnsResolverConfig: by})
	assignment = xdstest.Freeze(resource.Endpoint, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a", Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{
			{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: planeAddress()}}},
			{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: "10.0.0.8", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}},
			}}}}},
		},
	}}})
	packed, err := anypb.New(&clusterv3.Cluster{TypedDnsResolverConfig: by})
	if err != nil {
		t.Fatal(err)
	}
	leads = xdstest.Freeze(resource.Listener, "asks", &listenerv3.Listener{Name: "asks", ListenerFilters: []*listenerv3.ListenerFilter{{
		Name: "any", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed},
	}}})
	return cluster, assignment, leads
}

// guards waits until Envoy has nothing that leads to the control plane, and has the rest.
func guards(t *testing.T, c *xdstest.Client) {
	t.Helper()
	c.WaitFor(t, "nothing that leads there", func(v xdstest.View) bool {
		rest := v.Body(resource.Endpoint, "a")
		return v.Body(resource.Cluster, "names") == nil && v.Body(resource.Listener, "asks") == nil &&
			rest != nil && !strings.Contains(string(rest), "127.0.0.1") && strings.Contains(string(rest), "10.0.0.8") &&
			v.Body(resource.Cluster, "a") != nil && v.Body(resource.Listener, listener.Name) != nil
	})
}

// TestJudgedAgain: what Envoy has is judged anew when the machine comes to guard something, whether
// the control plane can be reached or not. It hears why, and gets through what is permitted later.
func TestJudgedAgain(t *testing.T) {
	cluster, assignment, leads := leadingToPlane(t)
	for name, away := range map[string]bool{"with the control plane": false, "without it": true} {
		t.Run(name, func(t *testing.T) {
			var guarded atomic.Bool
			p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
			r, stop := startRelayOn(t, dir, p.addr, guarding(&guarded))
			c := local(t, dir, xdstest.Options{})
			rev := p.publish(clusterA, cluster, assignment, listener, leads, routesA)
			if got := p.settle(t, rev); len(got.Acknowledged) != 1 || len(got.Rejected) != 0 {
				t.Fatalf("before anything is guarded: %+v", got)
			}
			if away {
				p.kill()
			}
			guarded.Store(true)
			r.JudgeAgain()
			guards(t, c)
			if text := r.Refused()["asks"]; !strings.Contains(text, "for an administrator") {
				t.Errorf("the listener is missing because %q", text)
			}
			if away {
				c.Close()
				stop()
				guarded.Store(false) // the file does not hold what was taken
				startRelayOn(t, dir, p.addr, guarding(&guarded))
				guards(t, local(t, dir, xdstest.Options{}))
				return
			}
			p.until(t, rev, func(_ int, refused []string) bool {
				all := strings.Join(refused, "\n")
				return strings.Contains(all, "names: ") && strings.Contains(all, "asks: ") && strings.Contains(all, "for an administrator")
			})
			guarded.Store(false)
			r.JudgeAgain()
			c.WaitFor(t, "everything", func(v xdstest.View) bool {
				return v.Body(resource.Cluster, "names") != nil && v.Body(resource.Listener, "asks") != nil && strings.Contains(string(v.Body(resource.Endpoint, "a")), "127.0.0.1")
			})
		})
	}
}

// TestUnansweredIsJudgedAgain: what Envoy has not answered gives way to what it has confirmed.
func TestUnansweredIsJudgedAgain(t *testing.T) {
	cluster, _, _ := leadingToPlane(t)
	good := xdstest.Freeze(resource.Cluster, "names", &clusterv3.Cluster{Name: "names"})
	var guarded atomic.Bool
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	r, _ := startRelayOn(t, dir, p.addr, guarding(&guarded))
	c := local(t, dir, xdstest.Options{})
	p.settle(t, p.publish(clusterA, good, endA, listener, routesA))
	c.Close()
	p.responds(t, p.publish(clusterA, cluster, endA, listener, routesA))
	c = local(t, dir, xdstest.Options{Hold: true})
	c.WaitFor(t, "the newest", func(v xdstest.View) bool { return bytes.Equal(v.Body(resource.Cluster, "names"), cluster.Body) })
	guarded.Store(true)
	r.JudgeAgain()
	c.WaitFor(t, "what it has confirmed", func(v xdstest.View) bool { return bytes.Equal(v.Body(resource.Cluster, "names"), good.Body) })
	c.Release() // an answer to the newest would count before that
	if got := p.settle(t, p.rev); len(got.Rejected) != 1 || !strings.Contains(got.Rejected[0].Error, "for an administrator") {
		t.Errorf("%+v", got)
	}
	c.See(func(v xdstest.View) {
		if !bytes.Equal(v.Body(resource.Cluster, "names"), good.Body) {
			t.Error("it has something else again")
		}
	})
}
