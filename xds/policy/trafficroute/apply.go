package trafficroute

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// defaultChoices is how many endpoints are compared unless a route says.
const defaultChoices = 2

func balancer(s *policy.Selection) LoadBalancer {
	if c := policy.First[Spec](s).Conf; c != nil && c.LoadBalancer != nil {
		return *c.LoadBalancer
	}
	return LoadBalancer{}
}

// hashes reports whether endpoints are picked by a hash.
func (lb LoadBalancer) hashes() bool { return lb.RingHash != nil || lb.Maglev != nil }

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
	}
	return out
}

// outbound and outboundRoutes say what is hashed, without which endpoints would
// be picked at random: the address of the client.
func outbound(d *draft.Outbound, s *policy.Selection) error {
	if d.TCP != nil && balancer(s).hashes() {
		d.TCP.HashPolicy = []*typev3.HashPolicy{{
			PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}},
		}}
	}
	return nil
}

func outboundRoutes(r *draft.Routes, s *policy.Selection) error {
	if !balancer(s).hashes() {
		return nil
	}
	for a := range r.Actions() {
		a.HashPolicy = []*routev3.RouteAction_HashPolicy{{
			PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
				ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
			},
		}}
	}
	return nil
}
