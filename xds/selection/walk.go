package selection

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// These are the sorts of places, in the terms of the mesh API.
const (
	PlaceProxy    = "dataplane"
	PlaceInbound  = "inbound"
	PlaceOutbound = "outbound"
	PlaceService  = "service"
	PlaceListener = "listener"
)

// Place is a place of a proxy with what was chosen for it.
type Place struct {
	// Sort is one of the sorts of places.
	Sort string
	// Name and Service distinguish places of one sort. A proxy has neither.
	Name, Service string
	// Socket is where an inbound or an outbound listens.
	Socket string
	// Protocol is what an inbound, or a listener of a gateway, speaks.
	Protocol string
	// Metrics says that the inbound is the one at which the proxy is scraped.
	Metrics bool
	// Matches are in the order of the given policies.
	Matches []Match
}

// Match is what one policy chose for a place. Chosen has no facts: what a policy would find
// beyond its own resources is not looked up.
type Match struct {
	Policy *policy.Policy
	Chosen *policy.Selection
}

// Of lists the places of a dataplane for which anything was chosen, ordered by sort, name and
// service.
func Of(m *view.Mesh, policies []*policy.Policy, d *view.Dataplane) []Place {
	n := d.Spec.Networking
	if n == nil {
		return nil
	}
	w := walk{mesh: m, policies: policies, sources: Sources(n)}
	w.add(Place{Sort: PlaceProxy}, func(p *policy.Policy) []*view.Policy {
		if decidedFor(m, policies, p, w.sources) {
			return nil
		}
		return OnProxy(nil, m, p, w.sources)
	})
	w.inbounds(d)
	w.listeners(n)
	outbounds := Declared(n)
	if all, reachable := Everything(n); all {
		outbounds = Virtual(m, reachable)
	}
	// A service may be where an outbound leads, or whose outbound it is, or both.
	services := map[string]policy.Attachment{mesh.PassThrough: policy.AtService}
	for i := range outbounds {
		services[outbounds[i].Tags.Service()] |= policy.AtService
		for _, service := range w.outbound(&outbounds[i]) {
			services[service] |= policy.AtDestination
		}
	}
	if tp := n.TransparentProxying; tp != nil && tp.RedirectPortOutbound != 0 {
		for _, service := range DirectServices(m, Direct(n)) {
			services[service] |= policy.AtService
		}
	}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		w.connection(Place{Sort: PlaceService, Name: service, Service: service}, services[service])
	}
	slices.SortStableFunc(w.places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Sort, b.Sort), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Service, b.Service))
	})
	return w.places
}

// OfInbounds lists the inbounds among these places. It does not
// look at outbounds, of which a transparent proxy has as many as its mesh has services.
func OfInbounds(m *view.Mesh, policies []*policy.Policy, d *view.Dataplane) []Place {
	w := walk{mesh: m, policies: policies}
	if d.Spec.Networking != nil {
		w.inbounds(d)
	}
	return w.places
}

// inbounds adds the inbounds, and the one at which the proxy is scraped.
func (w *walk) inbounds(d *view.Dataplane) {
	n := d.Spec.Networking
	for _, in := range Inbounds(n) {
		w.inbound(Place{Sort: PlaceInbound, Name: inboundName(n, in), Service: in.Tags.Service(), Socket: socket(n, in), Protocol: in.Tags.Protocol()}, in.Tags)
	}
	// What cannot be read has no listener, which the planner says.
	if s, err := Scraped(w.mesh, d.Spec); err == nil && s != nil {
		at := hostPort(n.Address, s.Port)
		name := at + ":" + strconv.FormatUint(uint64(s.Port), 10)
		w.inbound(Place{Sort: PlaceInbound, Name: name, Service: s.Tags.Service(), Socket: at, Metrics: true}, s.Tags)
	}
}

// listeners adds the listeners of a builtin gateway, by their port and host.
func (w *walk) listeners(n *mesh.Networking) {
	asked := func(p *policy.Policy) bool { return p.Attachment.Has(policy.AllByListener) && !lacks(w.mesh, p) }
	if !Builtin(n) || !slices.ContainsFunc(w.policies, asked) {
		return
	}
	g := ChosenGateway(w.mesh, n.Gateway.Tags)
	if g == nil {
		return
	}
	all := listenersOf(g, n.Gateway.Tags)
	for i := range all {
		l := &all[i]
		at := Place{Sort: PlaceListener, Name: hostPort(n.Address, l.Spec.Port) + ":" + l.Host, Service: n.Gateway.Tags.Service(), Protocol: l.Spec.Protocol}
		w.add(at, func(p *policy.Policy) []*view.Policy { return OnListener(nil, w.mesh, p, g.Name, l.Tags) })
	}
}

// walk visits the places of one dataplane.
type walk struct {
	mesh     *view.Mesh
	policies []*policy.Policy
	sources  []mesh.Tags
	places   []Place
}

// add adds a place if anything is chosen for it, and returns the matches.
func (w *walk) add(at Place, choose func(*policy.Policy) []*view.Policy) []Match {
	for _, p := range w.policies {
		if chosen := choose(p); len(chosen) > 0 {
			at.Matches = append(at.Matches, Match{p, &policy.Selection{Policies: chosen}})
		}
	}
	if len(at.Matches) > 0 {
		w.places = append(w.places, at)
	}
	return at.Matches
}

func (w *walk) inbound(at Place, tags mesh.Tags) {
	w.add(at, func(p *policy.Policy) []*view.Policy {
		if Decided(w.mesh, w.policies, p, tags) {
			return nil
		}
		return OnInbound(nil, w.mesh, p, tags)
	})
}

func (w *walk) connection(at Place, place policy.Attachment) []Match {
	return w.add(at, func(p *policy.Policy) []*view.Policy {
		return OnConnection(nil, w.mesh, p, place, w.sources, at.Service)
	})
}

// outbound adds an outbound and returns the services that it leads to. If its split cannot be
// made, that is only its own service.
func (w *walk) outbound(o *Outbound) (services []string) {
	var split *draft.Split
	for _, match := range w.connection(Place{Sort: PlaceOutbound, Name: o.Name(), Service: o.Tags.Service(), Socket: o.Name()}, policy.AtOutbound) {
		if match.Policy.Split != nil {
			if made, err := match.Policy.Split(match.Chosen, o.Tags); err == nil {
				split = made
			}
			break
		}
	}
	_, services = Destinations(split, o.Tags.Service())
	return services
}

// inboundName returns the address, the port, and the port of the workload.
func inboundName(n *mesh.Networking, in *mesh.Inbound) string {
	return socket(n, in) + ":" + strconv.FormatUint(uint64(cmp.Or(in.ServicePort, in.Port)), 10)
}

func socket(n *mesh.Networking, in *mesh.Inbound) string {
	return hostPort(cmp.Or(in.Address, n.Address), in.Port)
}
