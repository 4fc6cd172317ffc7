package trafficroute

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// defaultChoices is how many endpoints are compared if a route does not say.
const defaultChoices = 2

func balancer(s *policy.Selection) LoadBalancer {
	if c := policy.First[Spec](s).Conf; c != nil && c.LoadBalancer != nil {
		return *c.LoadBalancer
	}
	return LoadBalancer{}
}

// cluster sets how an endpoint is picked. Where nothing of a request is hashed, the ring and the
// Maglev table are looked up by a random number and load spreads.
func cluster(d *draft.Cluster, s *policy.Selection) error {
	lb := balancer(s)
	switch {
	case lb.LeastRequest != nil:
		d.Proto.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		choices := lb.LeastRequest.ChoiceCount
		if choices == 0 {
			choices = defaultChoices
		}
		d.Proto.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
			LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{ChoiceCount: wrapperspb.UInt32(choices)},
		}
	case lb.RingHash != nil:
		d.Proto.LbPolicy = clusterv3.Cluster_RING_HASH
		d.Proto.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: ring(lb.RingHash)}
	case lb.Random != nil:
		d.Proto.LbPolicy = clusterv3.Cluster_RANDOM
	case lb.Maglev != nil:
		d.Proto.LbPolicy = clusterv3.Cluster_MAGLEV
	default:
		d.Proto.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
	}
	return nil
}

// envoyMinRing is the default of
// envoy.config.cluster.v3.Cluster.RingHashLbConfig.minimum_ring_size.
const envoyMinRing = 1024

func ring(r *RingHash) *clusterv3.Cluster_RingHashLbConfig {
	out := &clusterv3.Cluster_RingHashLbConfig{HashFunction: clusterv3.Cluster_RingHashLbConfig_XX_HASH}
	if r.HashFunction == HashMurmur {
		out.HashFunction = clusterv3.Cluster_RingHashLbConfig_MURMUR_HASH_2
	}
	if r.MinRingSize > 0 {
		out.MinimumRingSize = wrapperspb.UInt64(r.MinRingSize)
	}
	if r.MaxRingSize > 0 {
		out.MaximumRingSize = wrapperspb.UInt64(r.MaxRingSize)
		if r.MinRingSize == 0 {
			// Envoy's default minimum may be above this maximum, which Envoy would refuse.
			out.MinimumRingSize = wrapperspb.UInt64(min(r.MaxRingSize, envoyMinRing))
		}
	}
	return out
}
