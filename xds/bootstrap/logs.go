package bootstrap

import (
	"fmt"
	"path/filepath"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/logsink"
)

const (
	// maxLogRequests bounds how many batches of lines are on their way to the agent. Loggers of
	// all outbounds and workers send at the same time. With the timeout that they have, it bounds
	// the memory that a stopped agent costs its Envoy; what is above it is lost.
	maxLogRequests = 512
	// These are bytes that wait for the agent to read them.
	logConnectionBuffer = 256 << 10
	logWindow           = 64 << 10
)

// logCluster leads to the socket of the agent's receiver of access logs. It speaks HTTP/2 without
// TLS: the kernel keeps others from the socket.
func logCluster(socket string) (*clusterv3.Cluster, error) {
	if !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("the socket for access logs has no absolute path: %q", socket)
	}
	options, err := pack(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
						InitialStreamWindowSize: wrapperspb.UInt32(logWindow), InitialConnectionWindowSize: wrapperspb.UInt32(logConnectionBuffer),
						ConnectionKeepalive: &corev3.KeepaliveSettings{
							Interval: durationpb.New(5 * time.Second), Timeout: durationpb.New(2 * time.Second),
						},
					},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return &clusterv3.Cluster{
		Name:                          logsink.Cluster,
		AltStatName:                   "access_logs",
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(time.Second),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(logConnectionBuffer),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(maxLogRequests), MaxPendingRequests: wrapperspb.UInt32(maxLogRequests), MaxRequests: wrapperspb.UInt32(maxLogRequests),
		}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
		LoadAssignment:                assignment(logsink.Cluster, pipe(socket, 0)),
	}, nil
}
