package edge

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	leastv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	ringv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	roundv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// balance sets how a cluster chooses among the targets of its upstream. If fewer targets are
// healthy than the threshold requires, the cluster serves nothing. Envoy's own panic mode
// would use unhealthy targets.
func balance(c *clusterv3.Cluster, k clusterKey) error {
	u := k.upstream.Spec
	c.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: u.Healthchecks.Threshold}
	local := &commonv3.LocalityLbConfig{LocalityConfigSpecifier: &commonv3.LocalityLbConfig_ZoneAwareLbConfig_{
		ZoneAwareLbConfig: &commonv3.LocalityLbConfig_ZoneAwareLbConfig{RoutingEnabled: &typev3.Percent{}, FailTrafficOnPanic: true},
	}}
	switch u.Algorithm {
	case gateway.RoundRobin, "":
		return choose(c, "round_robin", &roundv3.RoundRobin{LocalityLbConfig: local})
	case gateway.LeastConnections:
		return choose(c, "least_request", &leastv3.LeastRequest{LocalityLbConfig: local, SelectionMethod: leastv3.LeastRequest_FULL_SCAN})
	case gateway.ConsistentHashing:
		// The hash policy belongs to the cluster, not to its routes, because the upstream
		// defines it.
		slots := wrapperspb.UInt64(uint64(max(u.Slots, 1)))
		return choose(c, "ring_hash", &ringv3.RingHash{
			MinimumRingSize: slots, MaximumRingSize: slots,
			ConsistentHashingLbConfig: &commonv3.ConsistentHashingLbConfig{HashPolicy: hashPolicies(u)},
		})
	}
	return fmt.Errorf("algorithm %q of upstream %s is unknown", u.Algorithm, k.upstream.ID)
}

// choose sets the only policy of a cluster.
func choose(c *clusterv3.Cluster, name string, m proto.Message) error {
	policy, err := plan.Pack(m)
	if err != nil {
		return err
	}
	c.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.load_balancing_policies." + name, TypedConfig: policy},
	}}}
	return nil
}

// hashPolicies returns the hash policy and its fallback. The first one is terminal: it ends
// the search if it finds a value. If neither finds one, the target is random.
func hashPolicies(u *gateway.Upstream) []*routev3.RouteAction_HashPolicy {
	var out []*routev3.RouteAction_HashPolicy
	if p := hashPolicy(u.HashOn, u.HashOnHeader, u.HashOnQueryArg, u); p != nil {
		p.Terminal = true
		out = append(out, p)
	}
	if p := hashPolicy(u.HashFallback, u.HashFallbackHeader, u.HashFallbackQueryArg, u); p != nil {
		out = append(out, p)
	}
	return out
}

func hashPolicy(on, header, argument string, u *gateway.Upstream) *routev3.RouteAction_HashPolicy {
	switch on {
	case gateway.HashConsumer:
		// The filter sets this header, and removes it from client requests.
		return hashHeader(contract.IdentityHeaders[contract.HeaderConsumerID])
	case gateway.HashIP:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}}
	case gateway.HashHeader:
		return hashHeader(header)
	case gateway.HashCookie:
		// A client without the cookie gets one for its session.
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{
			Cookie: &routev3.RouteAction_HashPolicy_Cookie{Name: u.HashOnCookie, Path: u.HashOnCookiePath, Ttl: durationpb.New(time.Duration(0))},
		}}
	case gateway.HashPath:
		p := hashHeader(":path")
		p.GetHeader().RegexRewrite = &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: `\?.*`}}
		return p
	case gateway.HashQueryArg:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: argument},
		}}
	}
	return nil
}

func hashHeader(name string) *routev3.RouteAction_HashPolicy {
	return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
		Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: name},
	}}
}
