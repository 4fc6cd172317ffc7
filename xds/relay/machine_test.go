package relay_test

import (
	"net/netip"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// logging returns a listener with an access log without a format.
func logging(t *testing.T, logger proto.Message) *resource.Resource {
	t.Helper()
	var l listenerv3.Listener
	if err := proto.Unmarshal(listener.Body, &l); err != nil {
		t.Fatal(err)
	}
	packed, err := anypb.New(logger)
	if err != nil {
		t.Fatal(err)
	}
	l.AccessLog = []*accesslogv3.AccessLog{{ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed}}}
	return xdstest.Freeze(resource.Listener, listener.Name, &l)
}

// logOf returns the path of the access log in the listener that a client holds.
func logOf(t *testing.T, c *xdstest.Client) (path string) {
	t.Helper()
	c.WaitFor(t, "the listener", func(v xdstest.View) bool { return v.Body(resource.Listener, listener.Name) != nil })
	c.See(func(v xdstest.View) {
		var l listenerv3.Listener
		var log filev3.FileAccessLog
		if err := proto.Unmarshal(v.Body(resource.Listener, listener.Name), &l); err != nil {
			t.Error(err)
		} else if logger := l.GetAccessLog()[0].GetTypedConfig(); logger.MessageIs(&log) && logger.UnmarshalTo(&log) == nil {
			path = log.GetPath()
		}
	})
	return path
}

// TestAccessLogIsTheMachines: Envoy writes to the access log of this agent, whatever path the
// control plane sends. The same holds for a cache from an agent with another path.
func TestAccessLogIsTheMachines(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	_, stop := startRelayOn(t, dir, p.addr, machine.Bounds{AccessLog: "/var/log/own"})
	c := local(t, dir, xdstest.Options{})
	for _, sent := range []proto.Message{&streamv3.StdoutAccessLog{}, &filev3.FileAccessLog{Path: "/etc/cron.d/x"}} {
		l := logging(t, sent)
		rev := p.publish(clusterA, endA, l, routesA)
		c.WaitFor(t, "its version", func(v xdstest.View) bool { return v.Version(resource.Listener, l.Name) == l.Version })
		if path := logOf(t, c); path != "/var/log/own" {
			t.Errorf("%T: envoy writes to %q", sent, path)
		}
		if got := p.settle(t, rev); len(got.Acknowledged) != 1 || len(got.Rejected) != 0 {
			t.Errorf("%T: %+v", sent, got)
		}
	}
	c.Close()
	stop()
	p.kill()
	for _, own := range []string{"/var/log/moved", ""} {
		_, stop = startRelayOn(t, dir, p.addr, machine.Bounds{AccessLog: own})
		c := local(t, dir, xdstest.Options{})
		if path := logOf(t, c); path != own {
			t.Errorf("envoy writes to %q, its agent was started with %q", path, own)
		}
		c.Close()
		stop()
	}
}

// TestWhatNamesTheMachineIsRefused: a resource that names parts of the machine is not passed
// to Envoy. The control plane gets the reason, and everything else goes on.
func TestWhatNamesTheMachineIsRefused(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	r, stop := startRelay(t, dir, p.addr)
	c := local(t, dir, xdstest.Options{})
	p.settle(t, p.publish(clusterA, endA, listener, routesA))
	thief := xdstest.Freeze(resource.Endpoint, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a", Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/docker.sock"}}},
		}}}},
	}}})
	got := p.settle(t, p.publish(clusterA, thief, listener, routesB))
	if len(got.Rejected) != 1 || !strings.Contains(got.Rejected[0].Error, "a: it names a socket of the proxy's machine") {
		t.Errorf("%+v", got)
	}
	c.Request(resource.Route).Equals(t, routesB)
	c.Request(resource.Endpoint).Equals(t, endA)
	if refused := r.Refused(); len(refused) != 0 {
		t.Errorf("listeners: %v", refused)
	}
	p.settle(t, p.publish(clusterA, endA, listener, routesB))
	// A refused new listener counts as missing, even while no Envoy is connected. A good
	// version of the listener ends that.
	c.Close()
	second := xdstest.Freeze(resource.Listener, "second", &listenerv3.Listener{Name: "second", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/x"}}}})
	p.responds(t, p.publish(clusterA, endA, listener, routesB, second))
	c = local(t, dir, xdstest.Options{})
	got = p.settle(t, p.rev)
	if refused := r.Refused(); len(got.Rejected) != 1 || !strings.Contains(refused["second"], "it names a socket") {
		t.Errorf("%+v, listeners %v", got, refused)
	}
	p.settle(t, p.publish(clusterA, endA, listener, routesB, xdstest.Listener("second", 1001, "r")))
	if refused := r.Refused(); len(refused) != 0 {
		t.Errorf("listeners: %v", refused)
	}
	c.Close()
	stop()
}

// TestEndpointThatMayNotBeIsLeftOut: Envoy gets the other endpoints of the service, and later
// changes to them.
func TestEndpointThatMayNotBeIsLeftOut(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	_, stop := startRelay(t, dir, p.addr)
	c := local(t, dir, xdstest.Options{})
	p.settle(t, p.publish(clusterA, endA, listener, routesA))
	for _, honest := range []string{"10.0.0.8", "10.0.0.9"} {
		lead := func(address string) *endpointv3.LbEndpoint {
			return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
				}}},
			}}}
		}
		sent := xdstest.Freeze(resource.Endpoint, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a", Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{lead("169.254.169.254"), lead(honest)},
		}}})
		if got := p.settle(t, p.publish(clusterA, sent, listener, routesA)); len(got.Acknowledged) != 1 || len(got.Rejected) != 0 {
			t.Errorf("%+v", got)
		}
		c.WaitFor(t, "the endpoint", func(v xdstest.View) bool { return strings.Contains(string(v.Body(resource.Endpoint, "a")), honest) })
		c.See(func(v xdstest.View) {
			if body := string(v.Body(resource.Endpoint, "a")); strings.Contains(body, "169.254") {
				t.Errorf("envoy has %q", body)
			}
		})
	}
	c.Close()
	stop()
	// The file on disk lacks the endpoint. An agent that is started with another setting gets
	// it again.
	_, stop = startRelayOn(t, dir, p.addr, machine.Bounds{Allowed: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}})
	c = local(t, dir, xdstest.Options{})
	c.WaitFor(t, "the whole assignment", func(v xdstest.View) bool {
		return strings.Contains(string(v.Body(resource.Endpoint, "a")), "169.254.169.254")
	})
	c.Close()
	stop()
}
