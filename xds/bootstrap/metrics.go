package bootstrap

import (
	"fmt"
	"path/filepath"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/scraping"
)

const (
	// maxScrapes bounds how many clients have the agent's page of metrics sent to them at a time.
	// Each page may have some ten megabytes.
	maxScrapes = 8
	// scrapeBuffer is how many bytes of a page wait in Envoy for a client.
	scrapeBuffer = 256 << 10
)

// metricsCluster leads to the socket of the agent's page of metrics. It speaks HTTP/1.1 without
// TLS: the kernel keeps others from the socket.
func metricsCluster(socket string) (*clusterv3.Cluster, error) {
	if !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("the socket for metrics has no absolute path: %q", socket)
	}
	return &clusterv3.Cluster{
		Name:                          scraping.Cluster,
		AltStatName:                   "metrics",
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(time.Second),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(scrapeBuffer),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(maxScrapes), MaxPendingRequests: wrapperspb.UInt32(maxScrapes), MaxRequests: wrapperspb.UInt32(maxScrapes),
		}}},
		LoadAssignment: assignment(scraping.Cluster, pipe(socket, 0)),
	}, nil
}
