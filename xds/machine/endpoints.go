package machine

import (
	"errors"
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Partly ends the version of an assignment or cluster without the endpoints that a machine
// refuses. The control plane has no such version, so it sends the whole resource again
// whenever the agent returns. By then the machine may accept the endpoints.
const Partly = "-part"

// Endpoints handles an assignment that [Bounds.Admit] refuses, or a cluster that contains one.
// It returns the resource without the endpoints that Envoy must not connect to, or that this
// machine cannot verify, and the reasons. Otherwise one proxy or target of a service with a forbidden address would keep
// every caller from all others. The error is that of Admit for any other fault.
func (b Bounds) Endpoints(typeURL string, body []byte) (own []byte, left []error, err error) {
	b = b.once()
	m, err := (&anypb.Any{TypeUrl: typeURL, Value: body}).UnmarshalNew()
	if err != nil {
		return nil, nil, fmt.Errorf("decode what has endpoints: %w", err)
	}
	var a *endpointv3.ClusterLoadAssignment
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		a = m
	case *clusterv3.Cluster:
		// A STATIC cluster is the proxy's own workload; its faults must be reported.
		if m.GetType() == clusterv3.Cluster_STRICT_DNS {
			a = m.GetLoadAssignment()
			if why := b.unproved(m); why != nil {
				// Without any endpoint, nothing is ever sent in clear.
				a, m.LoadAssignment.Endpoints, m.TransportSocket, left = nil, nil, nil, []error{why}
			}
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

// unproved returns why a cluster can have no endpoints: they would have to prove themselves by
// authorities that this machine does not have.
func (b Bounds) unproved(c *clusterv3.Cluster) error {
	tls := new(tlsv3.UpstreamTlsContext)
	packed := c.GetTransportSocket().GetTypedConfig()
	if b.Roots != "" || packed == nil || c.GetLoadAssignment() == nil || packed.UnmarshalTo(tls) != nil || tls.GetCommonTlsContext().GetValidationContext().GetTrustedCa().GetFilename() == "" {
		return nil
	}
	return errors.New("its server must be verified, and this machine has no bundle of authorities")
}

// elsewhere returns why an endpoint is refused, if the reason is its address.
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
