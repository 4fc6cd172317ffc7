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

// collectorConnectTimeout is short because unsent data waits in memory until Envoy drops it.
const collectorConnectTimeout = 5 * time.Second

// collectorKey is everything that the cluster of an OTLP collector reads.
type collectorKey struct {
	name, host string
	port       uint32
	// tls requires a certificate signed by an authority in the bundle roots, a file on the
	// proxy's machine.
	tls   bool
	grpc  bool
	roots string
}

// logCollectorKey is everything that the cluster of the log collector reads.
type logCollectorKey struct{ url, roots string }

// logCollector returns the cluster of the access log's collector, which uses gRPC: without TLS
// for http://, with TLS for https://.
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

// collectorCluster returns the cluster of a collector. Without it only spans or log lines are
// lost.
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
