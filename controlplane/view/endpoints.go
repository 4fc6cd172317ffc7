package view

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// endpointEdit applies a batch of changed dataplanes to the services of a mesh. Its cost
// depends on the number of endpoints of the changed services.
type endpointEdit struct {
	from    *Mesh
	changed map[string]*serviceChange
}

// serviceChange is the effect of a batch on one service.
type serviceChange struct {
	// inbounds is the difference in the number of inbounds with the service's tag.
	inbounds int
	// left names the sources whose old endpoints are outdated; joined are their new ones.
	left   map[string]struct{}
	joined []Endpoint
}

func newEndpointEdit(m *Mesh) *endpointEdit {
	return &endpointEdit{from: m, changed: map[string]*serviceChange{}}
}

// change replaces a dataplane; nil means that it does not exist.
func (e *endpointEdit) change(name string, was, now *Dataplane) {
	for in := range inboundsOf(was) {
		c := e.service(in.Tags.Service())
		c.inbounds--
		c.left[name] = struct{}{}
	}
	for in := range inboundsOf(now) {
		c := e.service(in.Tags.Service())
		c.inbounds++
		if in.State != mesh.StateIgnored {
			c.joined = append(c.joined, Endpoint{
				Address: addressOf(now.Spec.Networking, in), Port: in.Port, Tags: in.Tags, Dataplane: name, Ready: in.IsReady(),
			})
		}
	}
}

func (e *endpointEdit) service(name string) *serviceChange {
	c := e.changed[name]
	if c == nil {
		c = &serviceChange{left: map[string]struct{}{}}
		e.changed[name] = c
	}
	return c
}

// freeze returns the services and the number of inbounds of each. An unchanged service keeps
// its pointer.
func (e *endpointEdit) freeze() (table[*MeshService], table[int]) {
	services, inbounds := editOf(e.from.services), editOf(e.from.inbounds)
	for name, c := range e.changed {
		old := e.from.Service(name)
		was, _ := e.from.inbounds.get(name)
		n := was + c.inbounds
		if n == 0 {
			services.drop(name)
			inbounds.drop(name)
			continue
		}
		if n != was {
			inbounds.put(name, n)
		}
		endpoints := c.merge(old)
		if old == nil || !slices.EqualFunc(old.Endpoints, endpoints, sameEndpoint) {
			services.put(name, &MeshService{
				Name: name, Endpoints: endpoints,
				Named: slices.ContainsFunc(endpoints, func(e Endpoint) bool { return !e.IsIP() }),
			})
		}
	}
	return services.table, inbounds.table
}

// merge returns the endpoints of a service in order. The unchanged ones are already in order.
func (c *serviceChange) merge(old *MeshService) []Endpoint {
	slices.SortFunc(c.joined, compareEndpoints)
	if old == nil {
		return c.joined
	}
	joined := c.joined
	out := make([]Endpoint, 0, len(old.Endpoints)+len(joined))
	for _, stays := range old.Endpoints {
		if _, left := c.left[stays.Source()]; left {
			continue
		}
		for len(joined) > 0 && compareEndpoints(joined[0], stays) < 0 {
			out, joined = append(out, joined[0]), joined[1:]
		}
		out = append(out, stays)
	}
	return append(out, joined...)
}

// compareEndpoints orders by address, port and source, so that the order, and with it
// every assignment, does not depend on the history. Tags decide between conflicting inbounds
// of one dataplane.
func compareEndpoints(a, b Endpoint) int {
	if c := cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Source(), b.Source())); c != 0 {
		return c
	}
	return cmp.Compare(a.Tags.String(), b.Tags.String())
}

func sameEndpoint(a, b Endpoint) bool {
	return a.Address == b.Address && a.Port == b.Port && a.Source() == b.Source() && a.Ready == b.Ready && a.Instances == b.Instances && maps.Equal(a.Tags, b.Tags)
}

// inboundsOf yields the inbounds with a service tag. Tags of gateways do not count, because
// nobody reaches a gateway as a service.
func inboundsOf(d *Dataplane) iter.Seq[*mesh.Inbound] {
	return func(yield func(*mesh.Inbound) bool) {
		if d == nil || d.Spec.Networking == nil {
			return
		}
		for i := range d.Spec.Networking.Inbound {
			if in := &d.Spec.Networking.Inbound[i]; in.Tags.Service() != "" && !yield(in) {
				return
			}
		}
	}
}

// addressOf returns the address at which other proxies reach an inbound.
func addressOf(n *mesh.Networking, in *mesh.Inbound) string {
	return cmp.Or(n.AdvertisedAddress, in.Address, n.Address)
}
