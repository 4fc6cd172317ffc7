package plan

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Resolver returns how clusters resolve names, for
// envoy.config.cluster.v3.Cluster.typed_dns_resolver_config: two attempts of one second each.
// A cluster is warm only when its names are resolved or given up, and until then the proxy
// opens no port and confirms no clusters. With Envoy's default of four attempts of five
// seconds, one silent name server could delay everything else for a minute.
func Resolver() (*corev3.TypedExtensionConfig, error) {
	packed, err := Pack(&caresv3.CaresDnsResolverConfig{
		QueryTimeoutSeconds: wrapperspb.UInt64(1), QueryTries: wrapperspb.UInt32(2),
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: packed}, nil
}
