package edge

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// collectorConnectTimeout is short: what cannot be sent is dropped by Envoy, and
// waits in memory until then.
const collectorConnectTimeout = 5 * time.Second

// collectorKey is all that the cluster of an OTLP collector reads.
type collectorKey struct {
	name, host string
	port       uint32
	// tls is signed by an authority of the proxy's machine, whose bundle is roots.
	tls   bool
	grpc  bool
	roots string
}

// logCollectorKey is where the access log goes, too.
type logCollectorKey struct{ url, roots string }

// logCollector is the cluster of the collector of the access log, which speaks gRPC:
// as http:// in clear, as https:// in TLS.
func logCollector(k logCollectorKey) (*resource.Resource, error) {
	u, err := url.Parse(k.url)
	if err != nil {
		return nil, fmt.Errorf("collector of the access log: %w", err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("collector of the access log: %q is not http(s)://host:port", k.url)
	}
	return collectorCluster(collectorKey{name: accesslog.Cluster, host: u.Hostname(), port: uint32(port), tls: u.Scheme == "https", grpc: true, roots: k.roots})
}

// collectorCluster reaches a collector. Without it spans or lines are lost, and
// nothing else.
func collectorCluster(k collectorKey) (*resource.Resource, error) {
	c := single(k.host, k.port, collectorConnectTimeout)
	c.Name, c.LoadAssignment.ClusterName = k.name, k.name
	if c.GetType() == clusterv3.Cluster_STRICT_DNS {
		resolver, err := plan.Resolver()
		if err != nil {
			return nil, err
		}
		c.TypedDnsResolverConfig = resolver
	}
	if err := speak(c, httpOptions(k.grpc)); err != nil {
		return nil, err
	}
	if k.tls {
		if k.roots == "" {
			return nil, errors.New("the collector cannot be verified: the machine of the proxy has no bundle of authorities")
		}
		socket, err := upstreamTLS(tlsKey{name: unbracket(k.host), verify: true, depth: -1, roots: k.roots}, alpn(k.grpc))
		if err != nil {
			return nil, err
		}
		c.TransportSocket = transportSocket(socket)
	}
	return plan.Freeze(resource.Cluster, c.Name, c)
}
