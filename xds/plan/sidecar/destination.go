package sidecar

import (
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// DestinationKinds are the kinds of destinations that a planner knows, a line for each.
// Of several that have a service the first reaches it. A service that none has is a
// destination of the first kind without endpoints.
func DestinationKinds() []DestinationKind {
	return []DestinationKind{
		meshServices{},
	}
}

// LocatingKinds are the kinds of the resources that make destinations, but for what
// every view of a mesh holds.
func LocatingKinds() (out []*model.Kind) {
	for _, k := range DestinationKinds() {
		if k.Kind() != mesh.Dataplanes {
			out = append(out, k.Kind())
		}
	}
	return out
}

// DestinationKind is a way in which a service is there for those who call it: where its
// endpoints are listed, and how connections to them are protected. Policies edit the
// clusters and routes of every kind, and know of none. A kind is comparable and has no
// state: what it makes depends on its arguments alone, else cells grow stale.
type DestinationKind interface {
	// Kind is that of the resources that make such destinations. What a state has of a
	// service may differ only if some of them do.
	Kind() *model.Kind
	// Find returns what a state has of a service, nil for nothing.
	Find(m *view.Mesh, service string) view.Destination
	// Inline reports whether the cluster of a destination lists its endpoints itself, so
	// that a change of them is a change of the cluster. Otherwise there is an assignment.
	Inline(tags mesh.Tags, d view.Destination) bool
	// Transport says how connections to a destination are protected.
	Transport(a Around, d view.Destination) Transport
	// Keeps reports whether a cluster with one protection may stay where one with another
	// is due and cannot be made.
	Keeps(a Around, was, due Transport) bool
	// Cluster completes a cluster that has a name, the timeouts of all clusters, and the
	// HTTP options of the mesh. Policies edit it afterwards.
	Cluster(d *draft.Cluster, in ClusterInput) error
	// Lead says what becomes of requests that are led to a destination; nil for nothing.
	// It is part of keys, so it must be comparable.
	Lead(tags mesh.Tags, d view.Destination) any
	// Route edits what leads to a destination of which Lead says something: a route, or
	// one share of it where it splits requests. Policies edit it afterwards.
	Route(t *draft.Target, lead any) error
}

// Transport is how connections to a destination are protected. It is part of keys.
type Transport struct {
	// Mutual says that proxy and destination prove their identities in the mesh to each
	// other, and Life how long connections may last among which such ones may be, 0 for ever.
	Mutual bool
	Life   time.Duration
	// Own is what else a kind looks at. It must be comparable.
	Own any
}

// ClusterInput is what the cluster of a destination is made of.
type ClusterInput struct {
	// Mesh is the name of the mesh, and Tags are those of the destination.
	Mesh string
	Tags mesh.Tags
	// Transport is what the kind said.
	Transport Transport
	// Destination is what the state has of the service, and Members are the endpoints of
	// it that the tags choose. Both are nil unless the kind lists them inline.
	Destination view.Destination
	Members     *endpointv3.ClusterLoadAssignment
}

// Around is what kinds of destinations may know of a mesh.
type Around struct{ planner *Planner }

// Strict reports whether the mesh allows nothing but mutual TLS.
func (a Around) Strict() bool { return a.planner.facts.security == strict }

// Permissive reports whether the mesh has identities, and allows connections without.
func (a Around) Permissive() bool { return a.planner.facts.security == permissive }

// Life is how long a connection by mutual TLS may last.
func (a Around) Life() time.Duration { return a.planner.facts.life }

// Secured reports whether the proxy of a dataplane holds an identity and takes mutual
// TLS. Only dataplanes that serve the destination may be asked for, in a permissive mesh.
func (a Around) Secured(dataplane string) bool { return a.planner.secured[dataplane] }

// led is what a kind does to what leads to one destination of an outbound, and behind it
// the same of those before. The whole is comparable.
type led struct {
	// at is the place of the destination in the list of the outbound.
	at, kind   int
	lead, rest any
}

// leads asks the kinds of some destinations what becomes of requests to them. It is nil
// if nothing does.
func (p *Planner) leads(destinations []mesh.Tags) (all any) {
	for i, tags := range destinations {
		kind, d := p.destination(tags.Service())
		if lead := p.kinds[kind].Lead(tags, d); lead != nil {
			all = led{i, kind, lead, all}
		}
	}
	return all
}

// destination finds who reaches a service, by the place in the list of kinds, and what
// there is of it; nil if nobody serves it.
func (p *Planner) destination(service string) (kind int, d view.Destination) {
	for i, k := range p.kinds {
		if d := k.Find(p.state, service); d != nil {
			return i, d
		}
	}
	return 0, nil
}

// located takes a changed resource of what makes destinations. It marks those that reach what
// the resource located before or locates now, and those that reach everything.
func (p *Planner) located(before *view.Mesh, key model.Key) {
	for _, k := range p.kinds {
		if k.Kind().Name != key.Kind {
			continue
		}
		for _, m := range [...]*view.Mesh{before, p.state} {
			for service := range m.Locates(k.Kind(), key.Name) {
				if k.Find(before, service) != k.Find(p.state, service) {
					p.service(service)
				}
				p.population(before, service)
			}
		}
	}
}

// made is a cluster of a destination as it was made.
type made struct {
	cluster, service string
	kind             int
	transport        Transport
}

// keepCluster adds the cluster of a destination, or the one of before if it could not be
// made and that one may stay, and reports whether there is any.
func (p *Planner) keepCluster(into, old *part, as made, r *resource.Resource, err error) bool {
	var before []*resource.Resource
	if err != nil {
		before = p.fit(old)
		if m := old.madeOf(as.cluster); m != nil {
			as = *m
		}
	}
	kept := into.keep(&into.clusters, before, as.cluster, r, err)
	if kept {
		into.made = append(into.made, as)
	}
	return kept
}

// fit are the clusters of before that may stay where they cannot be made anew: those
// of which the protection is as good as the one that is due.
func (p *Planner) fit(old *part) (stay []*resource.Resource) {
	for _, c := range old.clusters {
		if m := old.madeOf(c.Name); m != nil && p.fits(m) {
			stay = append(stay, c)
		}
	}
	return stay
}

// fits reports whether a cluster is protected well enough still. One of which the kind
// cannot tell is not.
func (p *Planner) fits(m *made) (yes bool) {
	err := guard(func() {
		kind, d := p.destination(m.service)
		k, a := p.kinds[kind], Around{p}
		yes = kind == m.kind && k.Keeps(a, m.transport, k.Transport(a, d))
	})
	return yes && err == nil
}

// life is how long a connection through clusters of several protections may last: the
// shortest of theirs, 0 if none is bounded.
func (a *part) life() (least time.Duration) {
	for i := range a.made {
		if life := a.made[i].transport.Life; life > 0 && (least == 0 || life < least) {
			least = life
		}
	}
	return least
}

// madeOf finds how a cluster was made, nil for one that is not of a destination.
func (a *part) madeOf(cluster string) *made {
	for i := range a.made {
		if a.made[i].cluster == cluster {
			return &a.made[i]
		}
	}
	return nil
}

// clusterOf is the key of the cluster of a destination but for the choices of policies.
func (p *Planner) clusterOf(kind int, ak *assignmentKey, protocol string, inline bool) clusterKey {
	ck := clusterKey{
		mesh: p.facts.mesh, name: ak.name, tags: ak.tags, protocol: protocol, kind: kind,
		transport: p.kinds[kind].Transport(Around{p}, ak.destination),
	}
	if inline {
		ck.inline = *ak
	}
	return ck
}

// editsClusters picks the policies that a cluster is made of.
func editsClusters(pol *policy.Policy) bool { return pol.Cluster != nil }
