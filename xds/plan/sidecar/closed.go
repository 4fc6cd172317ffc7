package sidecar

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// An inbound that cannot be made is closed. It never keeps an earlier version, because the
// rule that failed may be the one that was to keep somebody out.

// closedRoutes answers every request with 503, also on connections that are already open.
func closedRoutes(k inboundRoutesKey) (*resource.Resource, error) {
	tags := tagsOf(k.tags)
	return closed(routes(k.mesh, k.name, tags.Service(), tags.Protocol()))
}

func closed(d *draft.Routes) (*resource.Resource, error) {
	d.Host.Routes = closedHost()
	return plan.Freeze(resource.Route, d.Proto.GetName(), d.Proto)
}

// closedHost are the routes of a host that answers every request with 503.
func closedHost() []*routev3.Route {
	const body = `{"message":"the rules of this service cannot be enforced"}`
	return []*routev3.Route{{
		Match: everything(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 503, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
		}},
	}}
}

// closedTable does what closedRoutes does, for listeners of a gateway.
func closedTable(k builtinTableKey) (*resource.Resource, error) {
	return closed(routes(k.mesh, k.name, k.name, mesh.ProtocolHTTP))
}

// closedChains ends every connection. Omitting the listener would not be enough: a transparent
// proxy passes connections to an address without a listener.
func closedChains(tags mesh.Tags, cluster string) (*chains, error) {
	end, err := packFilter(tcpFilter, &tcpv3.TcpProxy{
		StatPrefix: clusterStat(cluster), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: nowhere},
	})
	if err != nil {
		return nil, err
	}
	return &chains{listener: &listenerv3.Listener{
		TrafficDirection: corev3.TrafficDirection_INBOUND, Metadata: tagMetadata(tags), EnableReusePort: alone(),
		FilterChains: []*listenerv3.FilterChain{{Name: "closed", Filters: []*listenerv3.Filter{end}}},
	}}, nil
}

// keepsOut reports whether a selection for an inbound refuses callers. A transparent proxy would
// pass connections to another address of the machine, or to another port of the workload, on to
// it; see guarded.
func (p *Planner) keepsOut(chosen picks, protocol string) bool {
	for i, pol := range p.policies {
		if pol.Guards() && chosen[i] != nil && (mesh.IsHTTP(protocol) || !pol.HTTPOnly) {
			return true
		}
	}
	return false
}

// close makes an inbound end every connection, because of err.
func (in *inbound) close(err error) {
	in.guarded = true
	in.part.failures = append(in.part.failures, plan.Failure{
		Cell: "inbound " + in.shape.Cluster, Err: fmt.Errorf("every connection is refused: %w", err),
	})
	// An error is not possible here. With nil chains the inbound would be omitted.
	in.chains, _ = closedChains(in.shape.Tags, in.shape.Cluster)
}
