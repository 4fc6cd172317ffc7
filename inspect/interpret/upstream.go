package interpret

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/directing"
	"github.com/meshgate/meshgate/xds/resource"
)

// lead says which clusters a route leads to.
func (p *Proxy) lead(out *Passage, a *routev3.RouteAction) error {
	notFound := uint32(503)
	if a.GetClusterNotFoundResponseCode() == routev3.RouteAction_NOT_FOUND {
		notFound = 404
	}
	var shares []Share
	switch c := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		shares = []Share{{Cluster: c.Cluster, Weight: 1}}
	case *routev3.RouteAction_WeightedClusters:
		if err := understood(c.WeightedClusters); err != nil {
			return err
		}
		for _, w := range c.WeightedClusters.GetClusters() {
			if err := understood(w); err != nil {
				return err
			}
			shares = append(shares, Share{Cluster: w.GetName(), Weight: w.GetWeight().GetValue(), Host: w.GetHostRewriteLiteral()})
		}
	default:
		return unsaid("where the route leads")
	}
	return p.split(out, shares, notFound, 503)
}

// tcp says which clusters a connection is forwarded to.
func (p *Proxy) tcp(out *Passage, t *tcpv3.TcpProxy) error {
	out.Opaque = true
	var shares []Share
	if chosen := out.facts[directing.Chosen]; chosen != "" {
		return p.split(out, []Share{{Cluster: chosen, Weight: 1}}, 0, 0)
	}
	switch c := t.GetClusterSpecifier().(type) {
	case *tcpv3.TcpProxy_Cluster:
		shares = []Share{{Cluster: c.Cluster, Weight: 1}}
	case *tcpv3.TcpProxy_WeightedClusters:
		for _, w := range c.WeightedClusters.GetClusters() {
			if err := understood(w); err != nil {
				return err
			}
			shares = append(shares, Share{Cluster: w.GetName(), Weight: w.GetWeight()})
		}
	default:
		return unsaid("where connections are forwarded to")
	}
	return p.split(out, shares, 0, 0)
}

// split completes the shares of a request. notFound and empty are the statuses where a cluster
// does not exist, and where it has no endpoints.
func (p *Proxy) split(out *Passage, shares []Share, notFound, empty uint32) error {
	shares = slices.DeleteFunc(shares, func(s Share) bool { return s.Weight == 0 })
	total := uint32(0)
	for i := range shares {
		total += shares[i].Weight
	}
	if len(shares) == 0 {
		return unsaid("where requests go, because no share has a weight")
	}
	if len(shares) > 1 {
		out.say(Step{Kind: StepSplit, Text: fmt.Sprintf("the requests are split between %d clusters", len(shares))})
	}
	for i := range shares {
		s := &shares[i]
		s.Total = total
		if err := p.fill(s, notFound, empty); err != nil {
			return err
		}
	}
	if len(shares) == 1 && shares[0].Reply != nil {
		out.Steps, out.Reply = append(out.Steps, shares[0].Steps...), shares[0].Reply
		return nil
	}
	out.Shares = shares
	return nil
}

// end makes a share one that serves nothing.
func (s *Share) end(kind string, status uint32, text string) {
	s.Steps = append(s.Steps, Step{Kind: kind, Name: s.Cluster, Text: text, Refused: true})
	s.Reply = &Reply{Status: status, Step: kind, Text: text}
}

// fill finds the endpoints of a share.
func (p *Proxy) fill(s *Share, notFound, empty uint32) error {
	res := p.Set.Get(resource.Cluster, s.Cluster)
	if res == nil {
		s.end(StepCluster, notFound, "there is no cluster "+s.Cluster)
		return nil
	}
	c := new(clusterv3.Cluster)
	if err := proto.Unmarshal(res.Body, c); err != nil {
		return unsaid("the cluster %s cannot be read", s.Cluster)
	}
	if err := understood(c); err != nil {
		return err
	}
	a := c.GetLoadAssignment()
	switch c.GetType() {
	case clusterv3.Cluster_ORIGINAL_DST:
		s.Steps = append(s.Steps, Step{Kind: StepCluster, Name: s.Cluster, Text: "the connection goes on to where the client wanted to go"})
		s.Ends = []End{{Original: true, Weight: 1, Total: 1}}
		return s.Ends[0].secure(c, &endpointv3.LbEndpoint{})
	case clusterv3.Cluster_EDS:
		given := p.Set.Get(resource.Endpoint, s.Cluster)
		if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
			given = p.Set.Get(resource.Endpoint, name)
		}
		if given == nil {
			return unsaid("the proxy does not have the endpoints of %s", s.Cluster)
		}
		a = new(endpointv3.ClusterLoadAssignment)
		if err := proto.Unmarshal(given.Body, a); err != nil {
			return unsaid("the endpoints of %s cannot be read", s.Cluster)
		}
	case clusterv3.Cluster_STATIC, clusterv3.Cluster_STRICT_DNS:
	default:
		return unsaid("how %s finds its endpoints", s.Cluster)
	}
	if err := understood(a); err != nil {
		return err
	}
	if err := s.list(c, a); err != nil {
		return err
	}
	if len(s.Ends) == 0 {
		s.end(StepEndpoint, empty, "the cluster "+s.Cluster+" has no endpoint that is ready")
		return nil
	}
	s.Steps = append(s.Steps, Step{Kind: StepCluster, Name: s.Cluster, Text: fmt.Sprintf("the cluster %s has %d endpoints", s.Cluster, len(s.Ends))})
	return nil
}

// list lists the endpoints of a cluster. Those of the first priority share the requests, the
// others get none as long as enough of those are healthy.
func (s *Share) list(c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment) error {
	first := ^uint32(0)
	for _, l := range a.GetEndpoints() {
		if len(l.GetLbEndpoints()) > 0 {
			first = min(first, l.GetPriority())
		}
	}
	total := uint32(0)
	for _, l := range a.GetEndpoints() {
		if err := understood(l); err != nil {
			return err
		}
		for _, e := range l.GetLbEndpoints() {
			if err := understood(e); err != nil {
				return err
			}
			if h := e.GetHealthStatus(); h != corev3.HealthStatus_UNKNOWN && h != corev3.HealthStatus_HEALTHY {
				continue
			}
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			end := End{Address: at.GetAddress(), Port: at.GetPortValue()}
			if l.GetPriority() == first {
				end.Weight = 1
				if w := e.GetLoadBalancingWeight(); w != nil {
					end.Weight = w.GetValue()
				}
				total += end.Weight
			}
			if err := end.secure(c, e); err != nil {
				return err
			}
			s.Ends = append(s.Ends, end)
		}
	}
	for i := range s.Ends {
		s.Ends[i].Total = total
	}
	return nil
}
