package sidecar

import (
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// DestinationKinds are the kinds of destinations that a planner knows, one line each. If several
// kinds have a service, it belongs to the first of them, those without proxies before others. A service that none has is a
// destination of the first kind without endpoints.
func DestinationKinds() []DestinationKind {
	return []DestinationKind{
		meshServices{},
		externalServices{},
		egressServices{},
		crossGateways{},
	}
}

// LocatingKinds are the kinds of the resources that make destinations, except those that every
// view of a mesh contains.
func LocatingKinds() (out []*model.Kind) {
	for _, k := range DestinationKinds() {
		if k.Kind() != mesh.Dataplanes && !slices.Contains(out, k.Kind()) {
			out = append(out, k.Kind())
		}
	}
	return out
}

// DestinationKind is one way in which a service can exist for its callers. It says where the
// endpoints are listed and how connections to them are protected. Policies edit the clusters
// and routes of all kinds alike and do not know about kinds. A kind is comparable and has no
// state. What it makes must depend only on its arguments. Otherwise cells would not be rebuilt
// when it changes.
type DestinationKind interface {
	// Kind is the kind of the resources that make such destinations. What Find returns for a
	// service changes only if some of these resources change.
	Kind() *model.Kind
	// Find returns the destination of a service in a state, nil if there is none.
	Find(m *view.Mesh, service string) view.Destination
	// Inline reports whether the cluster of a destination lists its endpoints itself. Then a
	// change of endpoints changes the cluster. Otherwise there is an assignment.
	Inline(tags mesh.Tags, d view.Destination) bool
	// Transport returns how connections are protected to those endpoints of a destination that
	// have some tags.
	Transport(a Around, tags mesh.Tags, d view.Destination) Transport
	// Keeps reports whether a cluster with one protection may stay in use when one with
	// another protection is due and cannot be made.
	Keeps(a Around, was, due Transport) bool
	// Cluster completes a cluster that already has a name, the timeouts of all clusters, and
	// the HTTP options of the mesh. Policies edit it afterwards.
	Cluster(d *draft.Cluster, in ClusterInput) error
	// Lead returns what is done to requests that are led to a destination, nil for nothing.
	// The result is part of keys, so it must be comparable.
	Lead(tags mesh.Tags, d view.Destination) any
	// Route edits what leads to a destination for which Lead is not nil: a route, or one share
	// of a route that splits requests. Policies edit it afterwards.
	Route(t *draft.Target, lead any) error
}

// Transport says how connections to a destination are protected. It is part of keys.
type Transport struct {
	// Mutual says that proxy and destination prove their identities in the mesh to each other.
	// Life is how long connections may last if some of them may be of that sort, 0 for ever.
	Mutual bool
	Life   time.Duration
	// Own is what else a kind considers. It must be comparable.
	Own any
}

// ClusterInput holds what the cluster of a destination is made of.
type ClusterInput struct {
	// Mesh is the name of the mesh. Tags are the tags of the destination.
	Mesh string
	Tags mesh.Tags
	// Transport is what DestinationKind.Transport returned.
	Transport Transport
	// Destination is what DestinationKind.Find returned. Members are its endpoints that the
	// tags select. Both are nil unless the cluster lists its endpoints itself.
	Destination view.Destination
	Members     *endpointv3.ClusterLoadAssignment
}

// Around is what kinds of destinations may know about a mesh.
type Around struct{ planner *Planner }

// Strict reports whether the mesh allows nothing but mutual TLS.
func (a Around) Strict() bool { return a.planner.facts.security == strict }

// Permissive reports whether the mesh has identities and also allows connections without them.
func (a Around) Permissive() bool { return a.planner.facts.security == permissive }

// Life returns how long a connection by mutual TLS may last.
func (a Around) Life() time.Duration { return a.planner.facts.life }

// Secured reports whether the proxy of a dataplane has an identity and accepts mutual TLS. It
// may only be asked in a permissive mesh, about dataplanes that serve the destination.
func (a Around) Secured(dataplane string) bool { return a.planner.secured[dataplane] }

// led holds what a kind does to what leads to one destination of an outbound, and the led of
// the destination before. A whole list of them is comparable.
type led struct {
	// at is the place of the destination in the list of the outbound.
	at, kind   int
	lead, rest any
}

// leads asks the kinds of some destinations what is done to requests to them. It returns nil if
// nothing is done.
func (p *Planner) leads(destinations []mesh.Tags) (all any) {
	for i, tags := range destinations {
		kind, d := p.destination(tags.Service())
		if lead := p.kinds[kind].Lead(tags, d); lead != nil {
			all = led{i, kind, lead, all}
		}
	}
	return all
}

// destination returns the kind that has a service, by its place in the list of kinds, and the
// destination; nil if nobody serves the service. A kind without proxies comes before others:
// somebody who may register a proxy would otherwise take its service, and with it whatever is
// demanded of callers and of the other end.
func (p *Planner) destination(service string) (kind int, d view.Destination) {
	for i, k := range p.kinds {
		if d := k.Find(p.state, service); d != nil && p.isProxyless(i) {
			return i, d
		}
	}
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
			if m.Brings(k.Kind(), key.Name) {
				p.renamed()
			}
			for service := range m.Locates(k.Kind(), key.Name) {
				if k.Find(before, service) != k.Find(p.state, service) {
					p.service(service)
				}
				p.population(before, service)
			}
		}
	}
}

// made describes how a cluster of a destination was made.
type made struct {
	cluster string
	// tags are those of the destination, in their canonical form.
	tags      string
	kind      int
	transport Transport
}

// keepCluster adds the cluster of a destination. If it could not be made, keepCluster adds the
// earlier one, provided that it may stay. It reports whether it added one.
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

// fit returns the earlier clusters that may stay if they cannot be made again: those whose
// protection is as good as the one that is due.
func (p *Planner) fit(old *part) (stay []*resource.Resource) {
	for _, c := range old.clusters {
		if m := old.madeOf(c.Name); m != nil && p.fits(m) {
			stay = append(stay, c)
		}
	}
	return stay
}

// fits reports whether a cluster is still protected well enough. If the kind cannot tell, it is
// not.
func (p *Planner) fits(m *made) (yes bool) {
	err := guard(func() {
		tags := tagsOf(m.tags)
		kind, d := p.destination(tags.Service())
		k, a := p.kinds[kind], Around{p}
		yes = kind == m.kind && k.Keeps(a, m.transport, k.Transport(a, tags, d))
	})
	return yes && err == nil
}

// life returns how long a connection through clusters of several protections may last: the
// shortest of their lives, 0 if none is bounded.
func (a *part) life() (least time.Duration) {
	for i := range a.made {
		if life := a.made[i].transport.Life; life > 0 && (least == 0 || life < least) {
			least = life
		}
	}
	return least
}

// madeOf returns how a cluster was made, nil if it is not the cluster of a destination.
func (a *part) madeOf(cluster string) *made {
	for i := range a.made {
		if a.made[i].cluster == cluster {
			return &a.made[i]
		}
	}
	return nil
}

// clusterOf returns the key of the cluster of a destination, without the choices of policies.
func (p *Planner) clusterOf(kind int, ak *assignmentKey, protocol string, transport Transport, inline bool) clusterKey {
	ck := clusterKey{
		mesh: p.facts.mesh, name: ak.name, tags: ak.tags, protocol: protocol, kind: kind,
		transport: transport,
	}
	if inline {
		ck.inline = *ak
	}
	return ck
}

// editsClusters returns the policies that edit clusters.
func editsClusters(pol *policy.Policy) bool { return pol.Cluster != nil }
