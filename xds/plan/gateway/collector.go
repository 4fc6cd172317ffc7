package gateway

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// collectorConnectTimeout is short: what cannot be sent is dropped by Envoy, and
// waits in memory until then.
const collectorConnectTimeout = 5 * time.Second

// collectorKey is all that the cluster of the collector reads.
type collectorKey struct{ url, roots string }

// collectorCluster reaches the OTLP collector, with gRPC: as http:// in clear, as
// https:// in TLS, signed by an authority of the proxy's machine.
func collectorCluster(k collectorKey) (*resource.Resource, error) {
	u, err := url.Parse(k.url)
	if err != nil {
		return nil, fmt.Errorf("collector of the access log: %w", err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("collector of the access log: %q is not http(s)://host:port", k.url)
	}
	c := single(u.Hostname(), uint32(port), collectorConnectTimeout)
	c.Name, c.LoadAssignment.ClusterName = accesslog.Cluster, accesslog.Cluster
	if !isAddress(u.Hostname()) {
		if c.TypedDnsResolverConfig, err = plan.Resolver(); err != nil {
			return nil, err
		}
	}
	if err := speak(c, httpOptions(true)); err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		socket, err := upstreamTLS(tlsKey{name: u.Hostname(), verify: true, depth: -1, roots: k.roots}, alpn(true))
		if err != nil {
			return nil, err
		}
		c.TransportSocket = transportSocket(socket)
	}
	return plan.Freeze(resource.Cluster, c.Name, c)
}
