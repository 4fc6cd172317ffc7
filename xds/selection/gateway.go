package selection

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// Gateway is what a builtin gateway has to do: the chosen MeshGateway, with the routes for its
// listeners.
type Gateway struct {
	Chosen *view.Policy
	// Listeners are ordered by port and, on one port, by host name.
	Listeners []GatewayListener
}

// GatewayListener is one host name on one port.
type GatewayListener struct {
	Spec *mesh.GatewayListener
	// Host is its host name, [mesh.AnyHost] for every host.
	Host string
	// Tags select routes and policies.
	Tags mesh.Tags
	// Hosts are what listeners of HTTP and HTTPS distinguish, ordered by name. The host of the
	// listener itself is always there.
	Hosts []GatewayHost
	// Shares are where listeners of TCP and TLS lead connections.
	Shares []GatewayShare
	// LeftOut is how many entries, shares or hosts it lacks, because the gateway has too many.
	LeftOut int
}

// GatewayHost is one host name with what is done with requests for it.
type GatewayHost struct {
	Name string
	// Entries are ordered: the first that matches a request counts. Hosts with the same routes share
	// them.
	Entries []GatewayEntry
}

// GatewayEntry is one match of a rule.
type GatewayEntry struct {
	Route *view.Policy
	Rule  *mesh.HTTPGatewayRule
	Match *mesh.GatewayMatch
	// rule and match are their places in the route.
	rule, match int
	// size is about how much it says.
	size int
}

// GatewayShare is one backend of connections.
type GatewayShare struct {
	Route   *view.Policy
	Backend *mesh.GatewayBackend
	// Weight is its part of all shares of the listener. If no backend of its rule has a weight, it
	// is 1.
	Weight uint32
}

// Builtin reports whether a dataplane is a gateway that the mesh configures.
func Builtin(n *mesh.Networking) bool {
	return n != nil && n.Gateway != nil && n.Gateway.Type == mesh.GatewayBuiltin
}

// ChosenGateway returns the MeshGateway for a gateway with some tags: the one with the best
// selector. It returns nil if none matches.
func ChosenGateway(m Candidates, tags mesh.Tags) *view.Policy {
	var w winner
	for c := range m.Candidates(mesh.MeshGateways, tags.Service()) {
		w.inbound(c, tags)
	}
	return w.best
}

// GatewayOf returns what a gateway with some tags has to do, nil if no MeshGateway matches it.
func GatewayOf(m *view.Mesh, tags mesh.Tags) *Gateway {
	chosen := ChosenGateway(m, tags)
	if chosen == nil {
		return nil
	}
	g := &Gateway{Chosen: chosen, Listeners: listenersOf(chosen, tags)}
	owners := g.owners()
	left := budget{mostHosts, MostEntries, mostText}
	for i := range g.Listeners {
		g.Listeners[i].lead(m, owners, &left)
	}
	return g
}

// listenersOf returns the listeners of a gateway without what they lead to, in their order.
func listenersOf(chosen *view.Policy, tags mesh.Tags) (out []GatewayListener) {
	spec := chosen.Spec.(*mesh.MeshGateway)
	all := spec.Listeners()
	for i := range all {
		l := &all[i]
		out = append(out, GatewayListener{Spec: l, Host: l.Host(), Tags: spec.ListenerTags(tags, l)})
	}
	slices.SortStableFunc(out, func(a, b GatewayListener) int {
		return cmp.Or(cmp.Compare(a.Spec.Port, b.Spec.Port), cmp.Compare(a.Host, b.Host))
	})
	return out
}

// RouteSelects reports whether a route is for listeners with some tags.
func RouteSelects(route *view.Policy, listener mesh.Tags) bool {
	return slices.ContainsFunc(route.Destinations, func(s mesh.Tags) bool { return mesh.Matches(s, listener) })
}

func confOf(route *view.Policy) *mesh.MeshGatewayRouteConf {
	if c := route.Spec.(*mesh.MeshGatewayRoute).Conf; c != nil {
		return c
	}
	return &mesh.MeshGatewayRouteConf{}
}

// Covers reports whether every host that one name stands for is one that another stands for. A
// name *.<name> stands for all names below it, at any depth.
func Covers(name, other string) bool {
	if name == mesh.AnyHost || name == other {
		return true
	}
	suffix, wild := strings.CutPrefix(name, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(other, "*"), suffix)
}

// precedence orders matches: exact paths before prefixes before expressions, longer ones first,
// then those with a method, with more headers and with more parameters.
func precedence(a, b *mesh.GatewayMatch) int {
	sort := func(m *mesh.GatewayMatch) (sort, length int) {
		kind, path := PathOf(m)
		return slices.Index([]string{mesh.MatchExact, mesh.MatchPrefix, mesh.MatchRegex}, kind), len(path)
	}
	first := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
	aKind, aLength := sort(a)
	bKind, bLength := sort(b)
	return cmp.Or(
		cmp.Compare(aKind, bKind), cmp.Compare(bLength, aLength), cmp.Compare(first(a.Method != ""), first(b.Method != "")),
		cmp.Compare(len(b.Headers), len(a.Headers)), cmp.Compare(len(b.QueryParameters), len(a.QueryParameters)),
	)
}

// PathOf returns what a match demands of a path. Without a path that is the prefix /, and a
// prefix has no slash at its end but that one.
func PathOf(m *mesh.GatewayMatch) (kind, value string) {
	switch {
	case m.Path == nil:
		return mesh.MatchPrefix, "/"
	case m.Path.Kind() == mesh.MatchPrefix:
		return mesh.MatchPrefix, cmp.Or(strings.TrimRight(m.Path.Value, "/"), "/")
	}
	return m.Path.Kind(), m.Path.Value
}

// Destinations lists the distinct destinations of a listener, in the order in which its routes
// name them.
func (l *GatewayListener) Destinations() (out []mesh.Tags) {
	seen := map[string]bool{}
	add := func(tags mesh.Tags) {
		if k := tags.String(); !seen[k] {
			seen[k] = true
			out = append(out, tags)
		}
	}
	rules := map[*mesh.HTTPGatewayRule]bool{}
	for i := range l.Hosts {
		for _, e := range l.Hosts[i].Entries {
			if rules[e.Rule] {
				continue
			}
			rules[e.Rule] = true
			for _, tags := range e.Rule.Destinations() {
				add(tags)
			}
		}
	}
	for _, s := range l.Shares {
		add(s.Backend.Destination)
	}
	return out
}

// OnGateway appends what a policy chooses for the destination of a listener: the one of which a
// source matches the tags of the listener, and a destination those of the backend, all of them,
// with the best sum of both ranks. Of several sources that match the first one counts, and of
// destinations the best one (mesh policy selection). A policy that is not for gateways chooses
// nothing.
func OnGateway(into []*view.Policy, m *view.Mesh, p *policy.Policy, listener, destination mesh.Tags) []*view.Policy {
	if !p.Gateway || lacks(m, p) {
		return into
	}
	var w winner
	for c := range m.Candidates(p.Kind, destination.Service()) {
		to, ok := bestOf(c.Destinations, destination)
		if !ok {
			continue
		}
		if from, ok := firstOf(c.Clients(), listener); ok {
			w.offer(c, from.Add(to))
		}
	}
	return appended(into, w.best)
}

// OnListener appends what a policy chooses for a listener of a gateway with some tags, best first:
// what has a target that is the listeners of the gateway, and matches the tags. What is for proxies
// or inbounds is not for listeners.
func OnListener(into []*view.Policy, m Candidates, p *policy.Policy, gateway string, tags mesh.Tags) []*view.Policy {
	if !p.Attachment.Has(policy.AllByListener) || lacks(m, p) {
		return into
	}
	of := Listening(gateway, tags)
	var out []*view.Policy
	for c := range m.Candidates(p.Kind, tags.Service()) {
		if slices.ContainsFunc(c.Targets, func(s mesh.Tags) bool { return s[mesh.ListenerOf] != "" && mesh.Matches(s, of) }) {
			out = append(out, c)
		}
	}
	return append(into, ordered(p, out)...)
}

// Listening returns the tags by which targets select a listener of a gateway.
func Listening(gateway string, tags mesh.Tags) mesh.Tags {
	of := maps.Clone(tags)
	of[mesh.ListenerOf] = gateway
	return of
}

// Listened lists the tags by which targets select the listeners of a dataplane, if it is a builtin
// gateway.
func Listened(m *view.Mesh, n *mesh.Networking) (out []mesh.Tags) {
	if !Builtin(n) {
		return nil
	}
	g := ChosenGateway(m, n.Gateway.Tags)
	if g == nil {
		return nil
	}
	for _, l := range listenersOf(g, n.Gateway.Tags) {
		out = append(out, Listening(g.Name, l.Tags))
	}
	return out
}
