package plan

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unlimited is more than a machine has connections to one address.
const unlimited = 1 << 20

// Unlimited returns thresholds that are never reached, for clusters that no CircuitBreaker is
// about. Envoy has 1024 where there are none (envoy.config.cluster.v3.CircuitBreakers.Thresholds),
// and a few callers with slow requests would keep out all others.
func Unlimited() *clusterv3.CircuitBreakers {
	most := func() *wrapperspb.UInt32Value { return wrapperspb.UInt32(unlimited) }
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: most(), MaxPendingRequests: most(), MaxRequests: most(), MaxRetries: most(),
	}}}
}
