package plan

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Resolver is how clusters resolve names: two questions of a second each, for
// envoy.config.cluster.v3.Cluster.typed_dns_resolver_config. A cluster is warm when
// its names are answered or given up, and a proxy opens no port and confirms no
// clusters before. Envoy's own four tries of five seconds would let one name server
// that is silent hold up all the rest for a minute.
func Resolver() (*corev3.TypedExtensionConfig, error) {
	packed, err := Pack(&caresv3.CaresDnsResolverConfig{
		QueryTimeoutSeconds: wrapperspb.UInt64(1), QueryTries: wrapperspb.UInt32(2),
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: packed}, nil
}
