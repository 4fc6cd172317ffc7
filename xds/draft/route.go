package draft

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Route is one route of an outbound that leads to destinations.
type Route struct {
	Proto  *routev3.Route
	Action *routev3.RouteAction
	// Protocol is what the destinations speak.
	Protocol string
	Targets  []Target
}

// Target is one destination of a route.
type Target struct {
	// Tags select its endpoints; they hold the service tag.
	Tags    mesh.Tags
	Cluster string
	// Route and Action are what leads there. Others may be led there, too, unless Weight
	// is nil.
	Route  *routev3.Route
	Action *routev3.RouteAction
	// Weight is its share; nil if it is the only one.
	Weight   *routev3.WeightedCluster_ClusterWeight
	Protocol string
}

// Ask has requests ask the destination for a host, whatever they asked for. A host that
// the route demands itself stays.
func (t *Target) Ask(host string) {
	switch {
	case t.Action.GetHostRewriteSpecifier() != nil:
	case t.Weight != nil:
		t.Weight.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: host}
	default:
		t.Action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: host}
	}
}

// Routed lists the routes that lead to destinations, which named tells apart by the names
// of their clusters.
func (r *Routes) Routed(named map[string]mesh.Tags) (out []*Route) {
	for _, route := range r.Host.GetRoutes() {
		action := route.GetRoute()
		if action == nil {
			continue
		}
		x := &Route{Proto: route, Action: action, Protocol: r.Protocol}
		target := func(cluster string, weight *routev3.WeightedCluster_ClusterWeight) {
			if tags := named[cluster]; tags != nil {
				x.Targets = append(x.Targets, Target{Tags: tags, Cluster: cluster, Route: route, Action: action, Weight: weight, Protocol: r.Protocol})
			}
		}
		if c := action.GetCluster(); c != "" {
			target(c, nil)
		}
		for _, w := range action.GetWeightedClusters().GetClusters() {
			target(w.GetName(), w)
		}
		out = append(out, x)
	}
	return out
}
