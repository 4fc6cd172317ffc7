package sidecar

import (
	"iter"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// Some destinations have no proxies that could refuse callers. So the proxies of the callers
// do it: an outbound has no cluster of a destination that its proxies may not call.

// proxyless is a kind of destinations without proxies of the mesh.
type proxyless interface {
	// Proxyless does nothing. It tells the kind from others.
	Proxyless()
}

// refusedPrefix begins the names of clusters that do not exist, because the proxies may not
// call the destination. Connections that are led to one are closed.
const refusedPrefix = apart + "refused:"

// refused returns the name that stands for a destination that must not be called.
func refused(tags mesh.Tags) string { return refusedPrefix + ClusterName(tags) }

// unmadePrefix begins the names of clusters that do not exist, because the destination cannot be
// called as it demands. Envoy answers requests that are led to one with 503.
const unmadePrefix = apart + "unmade:"

// unmade returns the name that stands for a destination that cannot be called.
func unmade(tags mesh.Tags) string { return unmadePrefix + ClusterName(tags) }

// permits reports whether a policy says who may call whom.
func permits(pol *policy.Policy) bool { return pol.Closed != nil }

// permitted reports whether the proxies of a reach may call a destination. The endpoints of a
// destination without proxies must all be permitted, because they share a cluster. None is not all:
// nobody would have been judged.
func (p *Planner) permitted(r *reach, tags mesh.Tags, kind int, d view.Destination) bool {
	if !p.isProxyless(kind) {
		return true
	}
	all := endpointsOf(d)
	for i := range all {
		if mesh.Matches(tags, all[i].Tags) && !p.admitted(r.sources, all[i].Tags) {
			return false
		}
	}
	return selects(d, tags)
}

// selects reports whether tags are those of any endpoint of a destination.
func selects(d view.Destination, tags mesh.Tags) bool {
	return slices.ContainsFunc(endpointsOf(d), func(e view.Endpoint) bool { return mesh.Matches(tags, e.Tags) })
}

func (p *Planner) isProxyless(kind int) bool {
	_, is := p.kinds[kind].(proxyless)
	return is
}

// admitted reports whether a caller with some tag sets may call what has these tags, as the
// permissions say that would be chosen for an inbound with the tags. If none is chosen, nobody
// may.
func (p *Planner) admitted(sources []mesh.Tags, tags mesh.Tags) bool {
	is := func(selector mesh.Tags) bool {
		return slices.ContainsFunc(sources, func(own mesh.Tags) bool { return mesh.Matches(selector, own) })
	}
	judged := false
	for pol, chosen := range p.permissions(tags) {
		judged = true
		if pol.Admits != nil {
			if !pol.Admits(chosen, is) {
				return false
			}
		} else if !slices.ContainsFunc(chosen, func(x *view.Policy) bool { return slices.ContainsFunc(x.Sources, is) }) {
			return false
		}
	}
	return judged
}

// permissions yields the permissions that are chosen for what has these tags.
func (p *Planner) permissions(tags mesh.Tags) iter.Seq2[*policy.Policy, []*view.Policy] {
	choose := func(pol *policy.Policy) []*view.Policy { return selection.OnInbound(nil, p.state, pol, tags) }
	return func(yield func(*policy.Policy, []*view.Policy) bool) {
		for i, pol := range p.policies {
			if !permits(pol) {
				continue
			}
			if d := p.deciders[i]; d >= 0 && len(choose(p.policies[d])) > 0 {
				continue
			}
			if chosen := choose(pol); len(chosen) > 0 && !yield(pol, chosen) {
				return
			}
		}
	}
}

// withoutProxies yields the services of destinations without proxies, with their endpoints, also where
// another kind has the service, too.
func (p *Planner) withoutProxies() iter.Seq2[string, *view.Located] {
	return func(yield func(string, *view.Located) bool) {
		for i, k := range p.kinds {
			if !p.isProxyless(i) || p.byEgress(i) { // these are of another kind, too
				continue
			}
			for service, l := range p.state.LocatedBy(k.Kind()) {
				if !yield(service, l) {
					return
				}
			}
		}
	}
}

// permittedSources yields the sources by which permissions distinguish the callers of
// destinations without proxies.
func (p *Planner) permittedSources() iter.Seq[mesh.Tags] {
	return func(yield func(mesh.Tags) bool) {
		known := map[*view.Policy]bool{} // one may be about everything, and have many sources
		for _, l := range p.withoutProxies() {
			for _, e := range l.Members() {
				for _, chosen := range p.permissions(e.Tags) {
					for _, x := range chosen {
						if known[x] {
							continue
						}
						known[x] = true
						for _, tags := range x.Sources { // not its targets, which are what is called
							if !yield(tags) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// reachesOutside reports whether there is any destination without proxies.
func (p *Planner) reachesOutside() bool {
	for range p.withoutProxies() {
		return true
	}
	return false
}

// proxylessKind reports whether resources of a kind make destinations without proxies.
func (p *Planner) proxylessKind(name string) bool {
	for i, k := range p.kinds {
		if k.Kind().Name == name && p.isProxyless(i) {
			return true
		}
	}
	return false
}

// permission marks the outbounds to destinations without proxies for which one of two versions
// of a permission may be chosen.
func (p *Planner) permission(versions ...*view.Policy) {
	for service, l := range p.withoutProxies() {
		for _, x := range versions {
			if x != nil && slices.ContainsFunc(l.Members(), func(e view.Endpoint) bool {
				return slices.ContainsFunc(x.Selectors(), func(s mesh.Tags) bool { return mesh.Matches(s, e.Tags) })
			}) {
				p.service(service)
			}
		}
	}
}

// stillPermitted returns those of some earlier clusters whose destinations the proxies may call
// now.
func (p *Planner) stillPermitted(r *reach, old *part, clusters []*resource.Resource) []*resource.Resource {
	return slices.DeleteFunc(clusters, func(c *resource.Resource) bool {
		yes := false
		err := guard(func() {
			m := old.madeOf(c.Name)
			tags := tagsOf(m.tags)
			kind, d := p.destination(tags.Service())
			yes = p.permitted(r, tags, kind, d)
		})
		return !yes || err != nil
	})
}

// refuse answers requests with 403 where a route leads only to destinations that the proxies
// may not call. A share of a route that leads to one is answered by Envoy, which finds no
// cluster.
func refuse(routes []*routev3.Route) {
	const body = `{"message":"no permission of the mesh lets this proxy call the service"}`
	for _, r := range routes {
		if a := r.GetRoute(); a != nil && leadsNowhere(a) {
			r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
				Status: 403, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
			}}
		}
	}
}

func leadsNowhere(a *routev3.RouteAction) bool {
	shares := a.GetWeightedClusters().GetClusters()
	if len(shares) == 0 {
		return strings.HasPrefix(a.GetCluster(), refusedPrefix)
	}
	return !slices.ContainsFunc(shares, func(s *routev3.WeightedCluster_ClusterWeight) bool {
		return !strings.HasPrefix(s.GetName(), refusedPrefix)
	})
}
