package selection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// A route without host names is for every host of its listeners, and each host has its own copy in
// what proxies get. A few documents could so make millions of entries. So a gateway has a budget,
// and nothing is made that is beyond it.
const (
	// MostEntries bounds the entries of all hosts of a gateway and the shares of its listeners.
	MostEntries = 1 << 14
	// mostText bounds, in bytes, what these say.
	mostText = 16 << 20
	// mostHosts bounds the hosts that routes name, for all listeners of a gateway.
	mostHosts = 1 << 13
)

// budget is what is left for the listeners that are still to come.
type budget struct{ hosts, entries, text int }

// take takes as many of some parts, each with a size, as there is room for. Once one has no room,
// nothing else has: what comes later must not take its place.
func (b *budget) take(sizes func(i int) int, n int) (fits int) {
	for fits < n && b.entries > 0 {
		size := sizes(fits)
		if size > b.text {
			b.entries = 0
			break
		}
		b.entries--
		b.text -= size
		fits++
	}
	if fits < n {
		b.entries = 0
	}
	return fits
}

// portHost is a port with the [suffix] of a host name that listens there.
type portHost struct {
	port   uint32
	suffix string
}

// suffix returns a host name without the star at its beginning.
func suffix(host string) string { return strings.TrimPrefix(host, mesh.AnyHost) }

// owners maps host names to the listeners that have them.
func (g *Gateway) owners() map[portHost]*GatewayListener {
	out := make(map[portHost]*GatewayListener, len(g.Listeners))
	for i := range g.Listeners {
		l := &g.Listeners[i]
		out[portHost{l.Spec.Port, suffix(l.Host)}] = l
	}
	return out
}

// ownerOf returns the listener on a port that takes requests for a host: the narrowest one whose
// host name covers it. It returns nil if there is none.
func ownerOf(owners map[portHost]*GatewayListener, port uint32, host string) *GatewayListener {
	for s := range covering(host) {
		if l := owners[portHost{port, s}]; l != nil {
			return l
		}
	}
	return nil
}

// covering yields the suffixes of the names that cover a host name, the narrowest first; see
// [Covers].
func covering(host string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for s := suffix(host); s != ""; {
			if !yield(s) {
				return
			}
			next := strings.IndexByte(s[1:], '.')
			if next < 0 {
				break
			}
			s = s[1+next:]
		}
		yield("")
	}
}

// lead finds the routes of a listener.
func (l *GatewayListener) lead(m *view.Mesh, owners map[portHost]*GatewayListener, left *budget) {
	var routes []*view.Policy
	for r := range m.Candidates(mesh.MeshGatewayRoutes, l.Tags.Service()) {
		if RouteSelects(r, l.Tags) {
			routes = append(routes, r)
		}
	}
	if l.Spec.Protocol == mesh.ListenerHTTP || l.Spec.Protocol == mesh.ListenerHTTPS {
		l.leadHosts(routes, owners, left)
		return
	}
	for _, r := range routes {
		if t := confOf(r).TCP; t != nil {
			for i := range t.Rules {
				l.share(r, t.Rules[i].Backends, left)
			}
		}
	}
}

// share adds the backends of a rule. If none of them has a weight, their shares are equal.
func (l *GatewayListener) share(r *view.Policy, backends []mesh.GatewayBackend, left *budget) {
	fits := left.take(func(i int) int { return textOf(backends[i].Destination) }, len(backends))
	l.LeftOut += len(backends) - fits
	for i, w := range Weights(backends)[:fits] {
		l.Shares = append(l.Shares, GatewayShare{r, &backends[i], w})
	}
}

// Weights returns the weights of the backends of a rule: equal ones if none is given.
func Weights(backends []mesh.GatewayBackend) []uint32 {
	out, none := make([]uint32, len(backends)), true
	for i := range backends {
		out[i] = backends[i].Weight
		none = none && out[i] == 0
	}
	for i := range out {
		if none {
			out[i] = 1
		}
	}
	return out
}

// lot is what hosts have that the same routes are about.
type lot struct {
	// routes are places in a list, and count is how many matches they have.
	routes  []int
	count   int
	entries []GatewayEntry
}

// leadHosts lists the hosts of a listener with their entries. If there is no room for a host, its
// requests must not be taken by a wildcard above it, which then answers nothing either.
func (l *GatewayListener) leadHosts(routes []*view.Policy, owners map[portHost]*GatewayListener, left *budget) {
	about := aboutHosts(routes)
	names, crowded := l.names(routes, owners, left)
	lots := map[string]*lot{}
	for _, name := range names {
		host := GatewayHost{Name: name}
		if of := lotFor(lots, routes, about, name); of != nil {
			closed := crowded && strings.HasPrefix(name, mesh.AnyHost)
			if of.entries == nil && left.entries > 0 && !closed {
				of.entries = entriesOf(routes, of.routes)
			}
			if of.entries != nil && !closed {
				fits := left.take(func(i int) int { return of.entries[i].size }, len(of.entries))
				host.Entries = of.entries[:fits:fits]
			}
			l.LeftOut += of.count - len(host.Entries)
		}
		l.Hosts = append(l.Hosts, host)
	}
}

// aboutHosts maps the suffixes of host names to the routes that name them, by their places.
func aboutHosts(routes []*view.Policy) map[string][]int {
	about := map[string][]int{}
	add := func(s string, i int) {
		if at := about[s]; len(at) == 0 || at[len(at)-1] != i {
			about[s] = append(at, i)
		}
	}
	for i, r := range routes {
		h := confOf(r).HTTP
		if h == nil {
			continue
		}
		if len(h.Hostnames) == 0 {
			add("", i)
		}
		for _, name := range h.Hostnames {
			add(suffix(name), i)
		}
	}
	return about
}

// names lists the hosts of a listener, and reports whether some are left out.
func (l *GatewayListener) names(routes []*view.Policy, owners map[portHost]*GatewayListener, left *budget) (names []string, crowded bool) {
	seen := map[string]bool{l.Host: true}
	for _, r := range routes {
		h := confOf(r).HTTP
		if h == nil {
			continue
		}
		for _, name := range h.Hostnames {
			if seen[name] || ownerOf(owners, l.Spec.Port, name) != l {
				continue
			}
			if left.hosts == 0 {
				crowded = true
				l.LeftOut++
				continue
			}
			left.hosts--
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), crowded
}

// lotFor returns the lot of a host, nil if no route is about it.
func lotFor(lots map[string]*lot, routes []*view.Policy, about map[string][]int, host string) *lot {
	var own []int
	for s := range covering(host) {
		if s != "" {
			own = append(own, about[s]...)
		}
	}
	slices.Sort(own)
	own = slices.Compact(own)
	key := fmt.Sprint(own)
	if of, known := lots[key]; known {
		return of
	}
	of := &lot{routes: append(own, about[""]...)}
	slices.Sort(of.routes) // a route may name a host and all hosts
	of.routes = slices.Compact(of.routes)
	for _, i := range of.routes {
		for _, rule := range confOf(routes[i]).HTTP.Rules {
			of.count += len(rule.Matches)
		}
	}
	if of.count == 0 {
		of = nil
	}
	lots[key] = of
	return of
}

// entriesOf lists the matches of some routes in their order.
func entriesOf(routes []*view.Policy, of []int) (out []GatewayEntry) {
	for _, place := range of {
		r := routes[place]
		rules := confOf(r).HTTP.Rules
		for i := range rules {
			size := textOfRule(&rules[i])
			for j := range rules[i].Matches {
				m := &rules[i].Matches[j]
				out = append(out, GatewayEntry{r, &rules[i], m, i, j, size + textOfMatch(m)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b GatewayEntry) int {
		return cmp.Or(
			precedence(a.Match, b.Match), cmp.Compare(a.Route.Name, b.Route.Name), cmp.Compare(a.rule, b.rule), cmp.Compare(a.match, b.match),
		)
	})
	return out
}

// piece is about what a part of a route takes beside its texts.
const piece = 32

func textOf(tags mesh.Tags) (n int) {
	for k, v := range tags {
		n += len(k) + len(v)
	}
	return n + piece
}

// textOfRule is about how much each route of a rule says, its match aside.
func textOfRule(r *mesh.HTTPGatewayRule) int {
	n := piece
	for _, tags := range r.Destinations() {
		n += textOf(tags)
	}
	headers := func(h *mesh.GatewayHeaderFilter) {
		if h == nil {
			return
		}
		for _, hs := range [...][]mesh.GatewayHeader{h.Set, h.Add} {
			for i := range hs {
				n += piece + len(hs[i].Name) + len(hs[i].Value)
			}
		}
		for _, name := range h.Remove {
			n += piece + len(name)
		}
	}
	text := func(s *string) {
		if s != nil {
			n += len(*s)
		}
	}
	for i := range r.Filters {
		f := &r.Filters[i]
		headers(f.RequestHeader)
		headers(f.ResponseHeader)
		if f.Rewrite != nil {
			text(f.Rewrite.ReplaceFull)
			text(f.Rewrite.ReplacePrefixMatch)
		}
		if f.Redirect != nil && f.Redirect.Path != nil {
			text(f.Redirect.Path.ReplaceFull)
			text(f.Redirect.Path.ReplacePrefixMatch)
		}
	}
	return n
}

func textOfMatch(m *mesh.GatewayMatch) (n int) {
	if m.Path != nil {
		n += len(m.Path.Value)
	}
	for i := range m.Headers {
		n += piece + len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	for i := range m.QueryParameters {
		n += piece + len(m.QueryParameters[i].Name) + len(m.QueryParameters[i].Value)
	}
	return n
}
