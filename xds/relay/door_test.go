package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// asks opens a stream with metadata and returns what becomes of its request for secrets: names,
// or an error.
func asks(t *testing.T, conn *grpc.ClientConn, delta bool, shown ...string) (names []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), shown...), patience)
	defer cancel()
	client, who := discovery.NewAggregatedDiscoveryServiceClient(conn), &corev3.Node{Id: node}
	if !delta {
		s, err := client.StreamAggregatedResources(ctx)
		if err != nil {
			return nil, err
		}
		_ = s.Send(&discovery.DiscoveryRequest{Node: who, TypeUrl: string(resource.Secret), ResourceNames: []string{"key"}}) // Recv tells
		answer, err := s.Recv()
		return make([]string, len(answer.GetResources())), err
	}
	s, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = s.Send(&discovery.DeltaDiscoveryRequest{Node: who, TypeUrl: string(resource.Secret), ResourceNamesSubscribe: []string{"key"}})
	answer, err := s.Recv()
	for _, r := range answer.GetResources() {
		names = append(names, r.GetName())
	}
	return names, err
}

// key returns a secret with a private key, of which the content does not matter.
func key() *resource.Resource {
	return xdstest.Freeze(resource.Secret, "key", &tlsv3.Secret{Name: "key", Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
		Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "private"}},
	}}})
}

// TestStrangersGetNothing: whoever reaches the socket and does not show the password is refused,
// whatever node it names. The log tells it once, and never the password.
func TestStrangersGetNothing(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	var log bytes.Buffer
	p.publishWith(key())
	r, stop := startRelayWith(t, dir, p.addr, func(c *relay.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	within(t, "the relay is ready", r.Ready())
	conn := socket(t, dir)
	const name = "authorization"
	for what, shown := range map[string][]string{
		"nothing": nil, "an empty one": {name, ""}, "no password": {name, "Bearer "}, "another": {name, "Bearer other"}, "a part": {name, "Bearer " + password[1:]},
		"more": {name, "Bearer " + password + "x"}, "another scheme": {name, "Basic " + password}, "it alone": {name, password},
		"two": {name, "Bearer " + password, name, "Bearer " + password}, "the node's token": {name, "Bearer token"}, "elsewhere": {"meshgate-node", node, "x-authorization", "Bearer " + password},
	} {
		for _, delta := range []bool{true, false} {
			names, err := asks(t, conn, delta, shown...)
			if status.Code(err) != codes.PermissionDenied || len(names) > 0 || strings.Contains(err.Error(), password) {
				t.Errorf("%s, delta %t: %q %v", what, delta, names, err)
			}
		}
	}
	for _, delta := range []bool{true, false} {
		if names, err := asks(t, conn, delta, name, "Bearer "+password); err != nil || len(names) != 1 {
			t.Errorf("the proxy's own, delta %t: %q, %v", delta, names, err)
		}
	}
	stop()
	if text := log.String(); strings.Count(text, "relay_refused_a_stranger") != 1 || strings.Contains(text, password) {
		t.Errorf("the log is\n%s", text)
	}
}

// TestStrangerIsRefusedBeforeItSpeaks: the answer does not wait for a request.
func TestStrangerIsRefusedBeforeItSpeaks(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	startRelay(t, dir, p.addr) // the control plane has nothing for it yet, so an admitted stream waits
	s, err := discovery.NewAggregatedDiscoveryServiceClient(socket(t, dir)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}

// leading returns a listener that carries whatever comes to the cluster of the relay, as bytes
// or as requests.
func leading(t *testing.T, port int, bytes bool) *resource.Resource {
	t.Helper()
	var filter proto.Message = &tcpv3.TcpProxy{StatPrefix: "x", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "relay"}}
	if !bytes {
		router, err := anypb.New(&routerv3.Router{})
		if err != nil {
			t.Fatal(err)
		}
		filter = &hcmv3.HttpConnectionManager{
			StatPrefix: "x", CodecType: hcmv3.HttpConnectionManager_HTTP2,
			HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router}}},
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{
				Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
					Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "relay"}}},
				}},
			}}}},
		}
	}
	packed, err := anypb.New(filter)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("leads-%d", port)
	return xdstest.Freeze(resource.Listener, name, &listenerv3.Listener{
		Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{Name: "f", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed}}}}},
	})
}

// TestListenersThatLeadToTheRelay: a stranger on the network, whom a real Envoy connects to its
// relay, gets no key by naming the node. The Envoy itself goes on, also when its agent was
// started again.
func TestListenersThatLeadToTheRelay(t *testing.T) {
	dir, err := os.MkdirTemp("", "door") // short enough for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := startPlane(t, "127.0.0.1:0")
	tcp, http := freePort(t), freePort(t)
	both := []*resource.Resource{leading(t, tcp, true), leading(t, http, false)}
	rev := p.publishWith(key(), both...)
	_, stop := startRelay(t, dir, p.addr)
	startEnvoy(t, dir)
	if got := p.settle(t, rev); len(got.Rejected) != 0 {
		t.Fatalf("progress %+v", got)
	}
	for what, port := range map[string]int{"bytes": tcp, "requests": http} {
		conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		for _, delta := range []bool{true, false} {
			if names, err := asks(t, conn, delta, "meshgate-node", node); status.Code(err) != codes.PermissionDenied || len(names) > 0 {
				t.Errorf("%s, delta %t: %q, %v", what, delta, names, err)
			}
		}
	}
	stop()
	startRelay(t, dir, p.addr)
	if got := p.settle(t, p.publishWith(key(), append(both, xdstest.Cluster("more", s))...)); len(got.Rejected) != 0 {
		t.Errorf("after the start of another agent: %+v", got)
	}
}
