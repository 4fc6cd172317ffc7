package edge

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
)

const (
	// socketMetadata is where Envoy looks for what chooses the transport socket of
	// an endpoint: envoy.config.cluster.v3.Cluster.transport_socket_matches.
	socketMetadata = "envoy.transport_socket_match"
	// targetSocket marks the transport socket of a target; its value is the name.
	targetSocket = "target"
)

// authority is the Host header for a server: without the protocol's own port.
func authority(host string, port int, secure bool) string {
	host, own := unbracket(host), 80
	if secure {
		own = 443
	}
	if port != own {
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// serviceAuthority is the Host header for a service. An upstream may have its own.
func serviceAuthority(g *view.Gateway, s *view.Service) string {
	if s == nil {
		return ""
	}
	if u, ok := g.Of(s.Scope).Upstream(s.Spec.Host); ok && u.Spec.HostHeader != "" {
		return u.Spec.HostHeader
	}
	return authority(s.Spec.Host, s.Spec.Port, s.Spec.TLS())
}

// callsByName reports whether targets that have names are called by them: their
// upstream has no name for all.
func (k clusterKey) callsByName() bool {
	return k.named != nil && k.upstream.Spec.HostHeader == ""
}

// namesOf lists the names of targets that get requests, with spaces between.
func namesOf(t *view.Targets) string {
	names := map[string]bool{}
	for _, m := range listOf(t) {
		if host, _ := m.Spec.HostPort(); m.Spec.Weight > 0 && !isAddress(host) {
			names[strings.ToLower(host)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), " ")
}

// callByName gives each endpoint what requests to it say in Host, which a route has
// Envoy take from there. Those with names also get what their probes say, and a
// mark by which Envoy finds their transport socket. Addresses are called as the
// service is: no route could give them another Host than it gives to names.
func callByName(k clusterKey, a *endpointv3.ClusterLoadAssignment) {
	for _, locality := range a.Endpoints {
		for _, e := range locality.LbEndpoints {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			if isAddress(at.GetAddress()) {
				e.GetEndpoint().Hostname = authority(k.host, k.port, k.secure())
				continue
			}
			name := authority(at.GetAddress(), int(at.GetPortValue()), k.secure())
			e.GetEndpoint().Hostname = name
			e.GetEndpoint().HealthCheckConfig = &endpointv3.Endpoint_HealthCheckConfig{Hostname: name}
			if k.tls.targets != "" {
				e.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMetadata: marked(strings.ToLower(at.GetAddress()))}}
			}
		}
	}
}

func marked(name string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{targetSocket: structpb.NewStringValue(name)}}
}

// targetSockets has a cluster ask each target that has a name for it, and verify
// it. The name comes from the configuration, never from a request: with Envoy's
// automatic SNI a client could choose, by its Host header, whose certificate is
// good.
func targetSockets(c *clusterv3.Cluster, k tlsKey, protocol string) error {
	for _, name := range strings.Fields(k.targets) {
		target := k
		target.name = name
		socket, err := upstreamTLS(target, protocol)
		if err != nil {
			return err
		}
		c.TransportSocketMatches = append(c.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{
			Name: targetSocket + ":" + name, Match: marked(name), TransportSocket: transportSocket(socket),
		})
	}
	return nil
}

// probesAsAsked reports whether probes of targets that have names can use the
// transport sockets of requests: they speak TLS alike and ask for the same name.
// Other probes have one socket for all targets.
func probesAsAsked(k clusterKey) bool {
	a := k.upstream.Spec.Healthchecks.Active
	return k.tls.targets != "" && probesTLS(k.upstream) && a.HTTPSSNI == "" &&
		a.HTTPSVerifyCertificate == k.tls.verify && http2(k.protocol) == (a.Type == gateway.CheckGRPCS)
}
