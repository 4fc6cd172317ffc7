package bootstrap

import (
	"fmt"
	"net/netip"
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

// authzCluster leads to the authorization service on this machine. It speaks HTTP/2 without
// TLS, because the service listens on loopback or on a Unix socket only.
func authzCluster(address string) (*clusterv3.Cluster, error) {
	at, err := authzAddress(address)
	if err != nil {
		return nil, err
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
		LoadAssignment:                assignment(contract.AuthzCluster, at),
	}, nil
}

func authzAddress(address string) (*corev3.Address, error) {
	if filepath.IsAbs(address) {
		return pipe(address, 0), nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the authorization service: %w", err)
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: at.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
	}}}, nil
}
