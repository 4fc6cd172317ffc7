package inspect

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// KindGateway is the kind of a proxy whose listeners are those of a MeshGateway.
const KindGateway = "MeshGatewayDataplane"

// GatewayList is what was chosen for a builtin gateway.
type GatewayList struct {
	Kind string `json:"kind"`
	// Gateway is the MeshGateway of the proxy; its members are empty if it has none.
	Gateway   Origin            `json:"gateway"`
	Listeners []GatewayListener `json:"listeners"`
	// Policies apply to the whole gateway.
	Policies map[string]Meta `json:"policies"`
	// Errors are those of the dataplane's overview.
	Errors []string `json:"errors,omitempty"`
}

// GatewayListener is one port of a gateway with the hosts that it distinguishes.
type GatewayListener struct {
	Port     uint32        `json:"port"`
	Protocol string        `json:"protocol"`
	Hosts    []GatewayHost `json:"hosts"`
}

// GatewayHost is one host name with the routes for it.
type GatewayHost struct {
	HostName string         `json:"hostName"`
	Routes   []GatewayRoute `json:"routes"`
}

// GatewayRoute is one route with the distinct destinations that it leads to, also those of
// mirrors.
type GatewayRoute struct {
	Route        string               `json:"route"`
	Destinations []GatewayDestination `json:"destinations"`
}

// GatewayDestination is one destination with the policies that are chosen for it, by their type.
type GatewayDestination struct {
	Tags     mesh.Tags       `json:"tags"`
	Policies map[string]Meta `json:"policies"`
	// Effective is what is in force, including the defaults of the policies, if it was asked for.
	Effective map[string]any `json:"effective,omitempty"`
}

// gateway shows what is chosen for a builtin gateway.
func (p *Policies) gateway(meshName string, m *view.Mesh, d *view.Dataplane, explain bool) GatewayList {
	n := d.Spec.Networking
	out := GatewayList{Kind: KindGateway, Listeners: []GatewayListener{}, Policies: map[string]Meta{}, Errors: p.problems(meshName, d.ID)}
	for _, at := range selection.Of(m, p.Policies, d) {
		for _, match := range at.Matches {
			if match.Policy.Rules == nil && (at.Sort == selection.PlaceProxy || at.Service == mesh.PassThrough) {
				out.Policies[match.Policy.Kind.Document.Type] = meta(meshName, match.Chosen.Policies[0])
			}
		}
	}
	g := selection.GatewayOf(m, n.Gateway.Tags)
	if g == nil {
		return out
	}
	out.Gateway = Origin{meshName, g.Chosen.Name}
	for i := range g.Listeners {
		l := &g.Listeners[i]
		hosts := hostsOf(l, func(tags mesh.Tags) GatewayDestination { return p.destination(meshName, m, l, tags, explain) })
		if last := len(out.Listeners) - 1; last >= 0 && out.Listeners[last].Port == l.Spec.Port {
			out.Listeners[last].Hosts = append(out.Listeners[last].Hosts, hosts...)
			continue
		}
		out.Listeners = append(out.Listeners, GatewayListener{l.Spec.Port, l.Spec.Protocol, hosts})
	}
	for i := range out.Listeners {
		slices.SortFunc(out.Listeners[i].Hosts, func(a, b GatewayHost) int { return cmp.Compare(a.HostName, b.HostName) })
	}
	return out
}

func (p *Policies) destination(meshName string, m *view.Mesh, l *selection.GatewayListener, tags mesh.Tags, explain bool) GatewayDestination {
	out := GatewayDestination{Tags: tags, Policies: map[string]Meta{}}
	for _, pol := range p.Policies {
		chosen := selection.OnGateway(nil, m, pol, l.Tags, tags)
		if len(chosen) == 0 {
			continue
		}
		kind := pol.Kind.Document.Type
		out.Policies[kind] = meta(meshName, chosen[0])
		if explain {
			if out.Effective == nil {
				out.Effective = map[string]any{}
			}
			out.Effective[kind] = pol.Explain(&policy.Selection{Policies: chosen})
		}
	}
	return out
}

// hostsOf lists the hosts of a listener, each with its routes by name and their destinations by
// tags. Connections of TCP and TLS have the host of the listener.
func hostsOf(l *selection.GatewayListener, show func(mesh.Tags) GatewayDestination) []GatewayHost {
	out := []GatewayHost{}
	host := func(name string, routes map[string]map[string]mesh.Tags) {
		h := GatewayHost{HostName: name, Routes: []GatewayRoute{}}
		for route, tags := range ordered(routes) {
			r := GatewayRoute{Route: route, Destinations: []GatewayDestination{}}
			for _, t := range ordered(tags) {
				r.Destinations = append(r.Destinations, show(t))
			}
			h.Routes = append(h.Routes, r)
		}
		out = append(out, h)
	}
	add := func(routes map[string]map[string]mesh.Tags, route string, tags ...mesh.Tags) {
		if routes[route] == nil {
			routes[route] = map[string]mesh.Tags{}
		}
		for _, t := range tags {
			routes[route][t.String()] = t
		}
	}
	for i := range l.Hosts {
		routes := map[string]map[string]mesh.Tags{}
		for _, e := range l.Hosts[i].Entries {
			add(routes, e.Route.Name, e.Rule.Destinations()...)
		}
		host(l.Hosts[i].Name, routes)
	}
	if l.Hosts == nil {
		routes := map[string]map[string]mesh.Tags{}
		for _, s := range l.Shares {
			add(routes, s.Route.Name, s.Backend.Destination)
		}
		host(l.Host, routes)
	}
	return out
}

// GatewayProxy is a builtin gateway for which something was chosen.
type GatewayProxy struct {
	Dataplane Origin `json:"dataplane"`
}

// GatewayProxyList contains the builtin gateways for which something was chosen.
type GatewayProxyList struct {
	Total int            `json:"total"`
	Items []GatewayProxy `json:"items"`
}

// Gateways shows, by name, the builtin gateways that a MeshGateway selects, or that have an entry
// of a MeshGatewayRoute. It returns [turns.ErrFull] as Of does.
func (p *Policies) Gateways(ctx context.Context, kind *model.Kind, meshName, name string, show func(any) error) error {
	return p.With(ctx, meshName, func(m *view.Mesh) error {
		out := GatewayProxyList{Items: []GatewayProxy{}}
		resource := m.Policy(kind, name)
		for _, d := range inOrder(m) {
			if err := ctx.Err(); err != nil {
				return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
			}
			if resource != nil && selection.Builtin(d.Spec.Networking) && gatewayHas(m, d.Spec.Networking.Gateway.Tags, resource) {
				out.Items = append(out.Items, GatewayProxy{Origin{meshName, d.ID}})
			}
		}
		out.Total = len(out.Items)
		return show(out)
	})
}

func gatewayHas(m *view.Mesh, tags mesh.Tags, resource *view.Policy) bool {
	if resource.Kind.Name == mesh.MeshGateways.Name {
		return slices.ContainsFunc(resource.Destinations, func(s mesh.Tags) bool { return mesh.Matches(s, tags) })
	}
	g := selection.GatewayOf(m, tags)
	return g != nil && slices.ContainsFunc(g.Listeners, func(l selection.GatewayListener) bool {
		return slices.ContainsFunc(l.Shares, func(s selection.GatewayShare) bool { return s.Route == resource }) ||
			slices.ContainsFunc(l.Hosts, func(h selection.GatewayHost) bool {
				return slices.ContainsFunc(h.Entries, func(e selection.GatewayEntry) bool { return e.Route == resource })
			})
	})
}

// chosenAt describes a builtin gateway for which a policy was chosen: the destinations of its
// listeners, or nothing but the proxy for a policy that is for all of it.
func chosenAt(meshName string, m *view.Mesh, d *view.Dataplane, pol *policy.Policy, name string) *Proxy {
	g := selection.GatewayOf(m, d.Spec.Networking.Gateway.Tags)
	if g == nil || !pol.Gateway {
		return nil
	}
	out := &Proxy{Kind: KindGateway, Dataplane: Origin{meshName, d.ID}, Gateway: &Origin{meshName, g.Chosen.Name}}
	for i := range g.Listeners {
		l := &g.Listeners[i]
		var hosts []ChosenHost
		for _, h := range hostsOf(l, func(tags mesh.Tags) GatewayDestination { return GatewayDestination{Tags: tags} }) {
			host := ChosenHost{HostName: h.HostName}
			for _, r := range h.Routes {
				route := ChosenRoute{Route: r.Route}
				for _, to := range r.Destinations {
					if chosen := selection.OnGateway(nil, m, pol, l.Tags, to.Tags); len(chosen) > 0 && chosen[0].Name == name {
						route.Destinations = append(route.Destinations, to.Tags)
					}
				}
				if route.Destinations != nil {
					host.Routes = append(host.Routes, route)
				}
			}
			if host.Routes != nil {
				hosts = append(hosts, host)
			}
		}
		if hosts == nil {
			continue
		}
		if last := len(out.Listeners) - 1; last >= 0 && out.Listeners[last].Port == l.Spec.Port {
			out.Listeners[last].Hosts = append(out.Listeners[last].Hosts, hosts...)
			continue
		}
		out.Listeners = append(out.Listeners, ChosenListener{l.Spec.Port, l.Spec.Protocol, hosts})
	}
	if out.Listeners == nil {
		return nil
	}
	return out
}

// builtinAt describes a builtin gateway for which a policy was chosen; nil if it was not. whole has
// the places of the proxy itself, of which only listeners are shown.
func builtinAt(meshName string, m *view.Mesh, d *view.Dataplane, pol *policy.Policy, name string, whole *Proxy) *Proxy {
	if len(whole.Attachments) == 0 {
		return chosenAt(meshName, m, d, pol, name)
	}
	out := &Proxy{Kind: KindGateway, Dataplane: whole.Dataplane, Gateway: &Origin{}}
	out.Attachments = slices.DeleteFunc(whole.Attachments, func(a Attachment) bool { return a.Type != selection.PlaceListener })
	if g := selection.ChosenGateway(m, d.Spec.Networking.Gateway.Tags); g != nil {
		*out.Gateway = Origin{meshName, g.Name}
	}
	return out
}

// ChosenListener is a port of a gateway with the hosts that have a destination for which a policy
// was chosen.
type ChosenListener struct {
	Port     uint32       `json:"port"`
	Protocol string       `json:"protocol"`
	Hosts    []ChosenHost `json:"hosts"`
}

// ChosenHost is one of the hosts.
type ChosenHost struct {
	HostName string        `json:"hostName"`
	Routes   []ChosenRoute `json:"routes"`
}

// ChosenRoute is a route with those of its destinations.
type ChosenRoute struct {
	Route        string      `json:"route"`
	Destinations []mesh.Tags `json:"destinations"`
}

// ordered yields a map by its keys.
func ordered[V any](all map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(all)) {
			if !yield(k, all[k]) {
				return
			}
		}
	}
}
