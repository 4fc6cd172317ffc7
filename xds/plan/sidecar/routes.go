package sidecar

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// outboundRoutesKey is everything that the route table of an outbound is made of.
type outboundRoutesKey struct {
	mesh, name, service, protocol string
	split                         *draft.Split
	renamed                       renames
	selections                    *policy.Choices
	// targets are the choices for the destinations of the split, one after another.
	targets *policy.Choices
	// leads are what kinds do to what leads to these; nil for nothing.
	leads any
}

// outboundRoutes builds the route table of an HTTP outbound. Nothing in it says whose
// it is: no policy reads the tags of the source from a header, and a table that bore
// them could not be shared. The header is removed, so that no workload says them.
func (p *Planner) outboundRoutes(k outboundRoutesKey) (*resource.Resource, error) {
	d, err := p.leading(k)
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Route, k.name, d.Proto)
}

// leading drafts the routes of an outbound, at which the kinds of the destinations and
// then the policies have had their turn.
func (p *Planner) leading(k outboundRoutesKey) (*draft.Routes, error) {
	d := routes(k.mesh, k.name, k.service, k.protocol)
	d.Proto.RequestHeadersToRemove = []string{mesh.HeaderTags}
	if k.split != nil {
		for _, r := range k.split.Rules {
			if route := conditional(r, k.renamed); route != nil {
				d.Host.Routes = append(d.Host.Routes, route)
			}
		}
		if len(k.split.Otherwise) > 0 {
			d.Host.Routes = append(d.Host.Routes, &routev3.Route{
				Match: everything(), Action: &routev3.Route_Route{Route: towards(&routev3.RouteAction{}, k.split.Otherwise, k.renamed)},
			})
		}
	}
	if k.split != nil {
		for a := range d.Actions() {
			for _, h := range k.split.Hash { // others use the split, too
				a.HashPolicy = append(a.HashPolicy, proto.CloneOf(h))
			}
		}
	}
	if err := p.editLeads(d, &k); err != nil {
		return nil, err
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outboundRoutes(d, s) }); err != nil {
		return nil, err
	}
	if err := p.editRoutes(d, &k); err != nil {
		return nil, err
	}
	refuse(d.Host.Routes)
	return d, nil
}

// places are the destinations of an outbound by the names of their clusters: their tags,
// and where they are in its list.
func (k *outboundRoutesKey) places() (named map[string]mesh.Tags, at map[string]int) {
	destinations, _ := selection.Destinations(k.split, k.service)
	named, at = map[string]mesh.Tags{}, map[string]int{}
	for i, tags := range destinations {
		cluster := k.renamed.cluster(tags)
		named[cluster], at[cluster] = tags, i
	}
	return named, at
}

// editLeads gives the kinds of destinations their turn at what leads to each.
func (p *Planner) editLeads(d *draft.Routes, k *outboundRoutesKey) error {
	if k.leads == nil {
		return nil
	}
	leads := map[int]led{}
	for l, ok := k.leads.(led); ok; l, ok = l.rest.(led) {
		leads[l.at] = l
	}
	named, at := k.places()
	for _, r := range d.Routed(named) {
		for i := range r.Targets {
			l, ok := leads[at[r.Targets[i].Cluster]]
			if !ok {
				continue
			}
			if err := p.kinds[l.kind].Route(&r.Targets[i], l.lead); err != nil {
				return err
			}
		}
	}
	return nil
}

// editRoutes gives every policy its turn at each route and at what it leads to.
func (p *Planner) editRoutes(d *draft.Routes, k *outboundRoutesKey) error {
	if k.split == nil || k.targets == nil && !p.has.routes {
		return nil
	}
	named, at := k.places()
	for _, r := range d.Routed(named) {
		if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.route(r, s) }); err != nil {
			return err
		}
		for i := range r.Targets {
			to := &r.Targets[i]
			for j, pol := range p.policies {
				if err := (&edits{pol}).target(to, k.targets.At(at[to.Cluster]*len(p.policies)+j)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// forTargets are the choices for the destinations of an outbound, one after another, of
// policies that edit destinations of routes.
func (p *Planner) forTargets(o *outbound, outer picks, destinations []mesh.Tags) *policy.Choices {
	all := make(picks, 0, len(destinations)*len(p.policies))
	for _, tags := range destinations {
		chosen := p.blank(atDestination)
		copy(chosen, outer)
		p.forConnection(o.reach.sources, tags.Service(), policy.AtDestination, 0, chosen)
		for i, pol := range p.policies {
			if pol.Target == nil {
				chosen[i] = nil
			}
		}
		all = append(all, chosen...)
	}
	return p.interner.Choices(all)
}

func routes(meshName, name, service, protocol string) *draft.Routes {
	d := &draft.Routes{
		Mesh: meshName, Service: service, Protocol: protocol,
		Host: &routev3.VirtualHost{Name: service, Domains: []string{"*"}},
	}
	d.Proto = &routev3.RouteConfiguration{
		Name: name, VirtualHosts: []*routev3.VirtualHost{d.Host}, ValidateClusters: wrapperspb.Bool(false),
		RequestHeadersToAdd: []*corev3.HeaderValueOption{plan.Upgrade()},
	}
	return d
}

func everything() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

// conditional is the route of a rule, nil if it leads nowhere. The rule belongs
// to a selection that others use too, so it is copied.
func conditional(r draft.Rule, names renames) *routev3.Route {
	if len(r.To) == 0 {
		return nil
	}
	out := &routev3.Route{}
	if r.Headers != nil {
		out = proto.CloneOf(r.Headers)
	}
	action := &routev3.RouteAction{}
	if r.Action != nil {
		action = proto.CloneOf(r.Action)
	}
	out.Match = proto.CloneOf(r.Match)
	out.Action = &routev3.Route_Route{Route: towards(action, r.To, names)}
	return out
}

// towards fills in the clusters of an action by their weights. Where no policy
// sets a limit there is none: Envoy's own of 15 s would cut streams.
func towards(a *routev3.RouteAction, targets []draft.Destination, names renames) *routev3.RouteAction {
	if a.Timeout == nil {
		a.Timeout = durationpb.New(0)
	}
	if len(targets) == 1 {
		a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: names.cluster(targets[0].Tags)}
		return a
	}
	weighted := &routev3.WeightedCluster{}
	for _, t := range targets {
		weighted.Clusters = append(weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: names.cluster(t.Tags), Weight: wrapperspb.UInt32(t.Weight)})
	}
	a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return a
}

// headerClientCert says what the certificate of a caller says. Policies about callers read it.
const headerClientCert = "x-forwarded-client-cert"

// inboundRoutesKey is everything that the route table of an inbound is made of.
type inboundRoutesKey struct {
	mesh, name, tags string
	// cluster leads to the workload.
	cluster   string
	mutualTLS bool
	bare      bool
	// scraped is the path at which metrics are shown, empty for workloads.
	scraped string
	// leaving says that the workload is outside the mesh, and asked is the host for which it is
	// asked, empty for what callers ask.
	leaving    bool
	asked      string
	selections *policy.Choices
}

// inboundRoutes builds the route table of an HTTP inbound. Who may call is part
// of it and not of the listener, so that a denial takes effect on connections
// that are open.
func (p *Planner) inboundRoutes(k inboundRoutesKey) (*resource.Resource, error) {
	tags := tagsOf(k.tags)
	d := routes(k.mesh, k.name, tags.Service(), tags.Protocol())
	d.MutualTLS, d.Bare = k.mutualTLS, k.bare
	d.Proto.RequestHeadersToRemove = []string{mesh.HeaderTags}
	d.Host.Routes = []*routev3.Route{{
		Match: everything(),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: k.cluster}, Timeout: durationpb.New(0),
		}},
	}}
	if k.scraped != "" {
		scrapedAt(k.scraped, d.Host.Routes[0])
	}
	if k.leaving { // who calls is nobody's business outside
		d.Proto.RequestHeadersToRemove = append(d.Proto.RequestHeadersToRemove, headerClientCert)
	}
	if k.asked != "" {
		(&draft.Target{Action: d.Host.Routes[0].GetRoute()}).Ask(k.asked)
	}
	for _, turn := range []func(*edits, *chosen) error{
		func(e *edits, s *chosen) error { return e.inboundRoutes(d, s) },
		func(e *edits, s *chosen) error { return e.callers(d, s) },
		func(e *edits, s *chosen) error { return e.demand(d, s) },
	} {
		if err := p.editInbound(k.selections, turn); err != nil {
			return nil, err
		}
	}
	r, err := plan.Freeze(resource.Route, k.name, d.Proto)
	if err == nil {
		r.Plugins = d.Plugins
	}
	return r, err
}
