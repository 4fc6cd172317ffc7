package machine

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Partly ends the version of an assignment or cluster without the endpoints that a machine
// does not take. It is none that the control plane has, which sends all of it again
// whenever the agent returns: by then the machine may take them.
const Partly = "-part"

// Endpoints returns an assignment, or a cluster that brings one along, that
// [Bounds.Admit] refuses without the endpoints that lead where nothing may, and why each
// is left out. One proxy or target of a service that says it is there would otherwise
// keep every caller from all others. The error is that of Admit for whatever else is wrong.
func (b Bounds) Endpoints(typeURL string, body []byte) (own []byte, left []error, err error) {
	m, err := (&anypb.Any{TypeUrl: typeURL, Value: body}).UnmarshalNew()
	if err != nil {
		return nil, nil, fmt.Errorf("decode what has endpoints: %w", err)
	}
	var a *endpointv3.ClusterLoadAssignment
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		a = m
	case *clusterv3.Cluster:
		// A STATIC one is the proxy's own workload: what is wrong with it is to be seen.
		if m.GetType() == clusterv3.Cluster_STRICT_DNS {
			a = m.GetLoadAssignment()
		}
	default:
		return nil, nil, fmt.Errorf("%s has no endpoints", typeURL)
	}
	for _, l := range a.GetEndpoints() {
		l.LbEndpoints = slices.DeleteFunc(l.GetLbEndpoints(), func(e *endpointv3.LbEndpoint) bool {
			why := b.elsewhere(e)
			if why != nil {
				left = append(left, why)
			}
			return why != nil
		})
	}
	rest, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the rest: %w", err)
	}
	own, err = b.Admit(typeURL, rest)
	return own, left, err
}

// elsewhere returns why an endpoint is refused, if that is because of where it leads.
func (b Bounds) elsewhere(e *endpointv3.LbEndpoint) error {
	raw, err := proto.Marshal(e)
	if err != nil {
		return nil //nolint:nilerr // what is wrong with the rest is found there
	}
	look := func(b Bounds) error {
		return (&walk{bounds: b}).message(e.ProtoReflect().Descriptor(), raw, false, 0)
	}
	free := b
	free.anywhere = true
	if look(free) != nil {
		return nil
	}
	return look(b)
}
