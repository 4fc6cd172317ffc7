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

	"github.com/meshgate/meshgate/filter/contract"
)

// authzBreaker replaces Envoy's own limit of concurrent requests, which would refuse requests
// that the service can decide.
const authzBreaker = 1 << 20

// authzCluster leads to the socket of the authorization service on this machine. It speaks
// HTTP/2 without TLS: the kernel keeps others from the socket.
func authzCluster(socket string) (*clusterv3.Cluster, error) {
	if !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("the socket of the authorization service has no absolute path: %q", socket)
	}
	options, err := pack(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(5 * time.Second), Timeout: durationpb.New(2 * time.Second),
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return &clusterv3.Cluster{
		Name:                 contract.AuthzCluster,
		AltStatName:          "authz",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(authzBreaker), MaxPendingRequests: wrapperspb.UInt32(authzBreaker), MaxRequests: wrapperspb.UInt32(authzBreaker),
		}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
		LoadAssignment:                assignment(contract.AuthzCluster, pipe(socket, 0)),
	}, nil
}
