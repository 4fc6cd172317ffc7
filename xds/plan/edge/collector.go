package edge

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// collectorKey is everything that the cluster of an OTLP collector reads.
type collectorKey struct {
	name   string
	server collector.Server
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
	return collectorCluster(collectorKey{accesslog.Cluster, collector.Server{Host: u.Hostname(), Port: uint32(port), TLS: u.Scheme == "https", GRPC: true, Roots: k.roots}})
}

// collectorCluster returns the cluster of a collector.
func collectorCluster(k collectorKey) (*resource.Resource, error) {
	c, err := k.server.Cluster(k.name)
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Cluster, c.Name, c)
}
