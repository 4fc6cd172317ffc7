package relay_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unchecked returns a cluster whose first health check gets no answer before a timeout.
func unchecked(t *testing.T, name string, timeout time.Duration) *resource.Resource {
	t.Helper()
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // the system accepts, but nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	port := uint32(silent.Addr().(*net.TCPAddr).Port)
	c := &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
				}}},
			}}}},
		}}},
		HealthChecks: []*corev3.HealthCheck{{
			Timeout: durationpb.New(timeout), Interval: durationpb.New(10 * time.Minute),
			UnhealthyThreshold: wrapperspb.UInt32(1), HealthyThreshold: wrapperspb.UInt32(1),
			HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{Path: "/"}},
		}},
	}
	return xdstest.Freeze(resource.Cluster, name, c)
}

// TestControlPlaneDiesWhileEnvoyWarms: a cluster that an Envoy is warming is deleted while the
// control plane is away. With the next control plane the Envoy finishes its start, with and
// without an agent. The published configuration is never empty.
func TestControlPlaneDiesWhileEnvoyWarms(t *testing.T) {
	for name, agent := range map[string]bool{"an Envoy": false, "an Envoy with an agent": true} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "warm") // short enough for a socket path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			port, one := freePort(t), backend(t, "one")
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			world := []*resource.Resource{
				xdstest.Cluster("one", s), xdstest.Endpoints("one", one), xdstest.Listener("in", port, "r"), xdstest.Routes("r", "one", 0),
			}
			stuck := unchecked(t, "stuck", 10*time.Minute)
			p := startPlane(t, address(t))
			p.publish(append(slices.Clone(world), stuck)...)
			if agent {
				startRelay(t, dir, p.addr)
				startEnvoy(t, dir)
			} else {
				startEnvoyOn(t, dir, onTCP(p.addr))
			}
			untilStat(t, dir, "cluster.stuck.health_check.attempt", 1) // Envoy waits for it during its start
			p.kill()
			back := startPlane(t, p.addr)
			rev := back.publish(world...)
			if got := back.settle(t, rev); len(got.Acknowledged) != 1 {
				t.Errorf("progress %+v", got)
			}
			untilAnswer(t, client, dir, port, "200 one")

			// The same with an Envoy that already serves. Without an agent it would not ask a
			// new control plane for clusters before the one that it warms is warm.
			if !agent {
				return
			}
			back.publish(append(slices.Clone(world), stuck)...)
			untilStat(t, dir, "cluster_manager.warming_clusters", 1)
			back.kill()
			if got, err := get(client, port); err != nil || got != "200 one" {
				t.Errorf("without a control plane: %q, %v", got, err)
			}
			third := startPlane(t, p.addr)
			rev = third.publish(world...)
			third.settle(t, rev)
			untilStat(t, dir, "cluster_manager.warming_clusters", 0)
			untilAnswer(t, client, dir, port, "200 one")
		})
	}
}

// TestFirstHealthCheckEndsTheWarming: a cluster whose endpoints do not answer delays what
// follows for the duration of one check, however long the interval to the next check is.
func TestFirstHealthCheckEndsTheWarming(t *testing.T) {
	dir, err := os.MkdirTemp("", "warm") // short enough for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, one := freePort(t), backend(t, "one")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	p := startPlane(t, "127.0.0.1:0")
	rev := p.publish(
		xdstest.Cluster("one", s), xdstest.Endpoints("one", one), xdstest.Listener("in", port, "r"), xdstest.Routes("r", "one", 0),
		unchecked(t, "slow", time.Second),
	)
	startRelay(t, dir, p.addr)
	startEnvoy(t, dir)
	if got := p.settle(t, rev); len(got.Acknowledged) != 1 {
		t.Errorf("progress %+v", got)
	}
	untilStat(t, dir, "cluster.slow.health_check.failure", 1)
	untilAnswer(t, client, dir, port, "200 one")
}

// onTCP returns an address for the bootstrap.
func onTCP(addr string) string {
	return fmt.Sprintf("socket_address: {address: 127.0.0.1, port_value: %s}", addr[strings.LastIndex(addr, ":")+1:])
}

// untilStat waits until a counter or gauge of an Envoy has a value.
func untilStat(t *testing.T, dir, stat string, want int) {
	t.Helper()
	admin := &http.Client{Timeout: attempt, Transport: &http.Transport{
		DialContext: over(filepath.Join(dir, "admin.sock")),
	}}
	defer admin.CloseIdleConnections()
	line := fmt.Sprintf("%s: %d\n", stat, want)
	untilTrue(t, line, func() bool {
		_, got, err := read(admin, "http://admin/stats?filter=^"+stat+"$")
		return err == nil && got == line
	})
}
