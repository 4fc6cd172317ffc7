package selection

import (
	"cmp"
	"iter"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// Candidates finds the policies that may be chosen. [view.Mesh] implements it.
type Candidates interface {
	// Candidates yields, ordered by name, every policy of a kind with a destination that may
	// match a tag set with this service. It may yield others as well.
	Candidates(k *model.Kind, service string) iter.Seq[*view.Policy]
}

// OnConnection appends what a policy chooses for the connections of a proxy to a service, best
// first. place is AtOutbound or AtDestination; a policy that is not chosen at that sort of place
// chooses nothing.
func OnConnection(into []*view.Policy, m Candidates, p *policy.Policy, place policy.Attachment, sources []mesh.Tags, service string) []*view.Policy {
	switch at := p.Attachment & place; {
	case at == 0 || lacks(m, p) || p.Proxyless && !outside(m, service):
	case at.Has(policy.All):
		return append(into, allOutbound(m, p, sources, service)...)
	default:
		return appended(into, outbound(m, p, sources, service))
	}
	return into
}

// OnInbound appends what a policy chooses for an inbound with some tags, best first. A policy
// that is not chosen for inbounds chooses nothing.
func OnInbound(into []*view.Policy, m Candidates, p *policy.Policy, tags mesh.Tags) []*view.Policy {
	switch at := p.Attachment & policy.AtInbound; {
	case at == 0 || lacks(m, p):
	case at.Has(policy.All):
		return append(into, allInbound(m, p, tags)...)
	default:
		return appended(into, inbound(m, p, tags))
	}
	return into
}

// OnProxy appends what a policy chooses for a whole proxy, best first. A policy that is not
// chosen for whole proxies chooses nothing.
func OnProxy(into []*view.Policy, m Candidates, p *policy.Policy, sets []mesh.Tags) []*view.Policy {
	switch at := p.Attachment & policy.AtProxy; {
	case at == 0 || lacks(m, p):
	case at.Has(policy.All):
		return append(into, allProxy(m, p, sets)...)
	default:
		return appended(into, proxy(m, p, sets))
	}
	return into
}

// Decided reports whether another policy of a list decides at an inbound instead of p, because
// one of its kind is chosen there.
func Decided(m Candidates, list []*policy.Policy, p *policy.Policy, tags mesh.Tags) bool {
	d := p.Decider(list)
	return d != nil && len(OnInbound(nil, m, d, tags)) > 0
}

// decidedFor does what Decided does, for a whole proxy.
func decidedFor(m Candidates, list []*policy.Policy, p *policy.Policy, sets []mesh.Tags) bool {
	d := p.Decider(list)
	return d != nil && len(OnProxy(nil, m, d, sets)) > 0
}

// lacks reports whether there is nothing to choose from, so that kinds that nobody uses cost
// nothing.
func lacks(m Candidates, p *policy.Policy) bool {
	v, ok := m.(*view.Mesh)
	return ok && v.Lacks(p.Kind)
}

// outside reports whether a service is outside the mesh, and callers call it themselves.
func outside(m Candidates, service string) bool {
	v, ok := m.(*view.Mesh)
	return ok && v.Located(mesh.ExternalServices, service) != nil && !v.LeavesByEgress()
}

func appended(into []*view.Policy, one *view.Policy) []*view.Policy {
	if one == nil {
		return into
	}
	return append(into, one)
}

// outbound chooses the policy for the connections of a proxy to a service. It adds the rank of
// a source that matches one of the proxy's tag sets to the rank of a destination that matches
// the service tag alone, and chooses the policy with the best sum (mesh policy selection). It
// returns nil if none matches.
func outbound(m Candidates, p *policy.Policy, sources []mesh.Tags, service string) *view.Policy {
	// With a concrete type the compiler inlines the loop, and its state, a separate variable,
	// stays on the stack.
	if v, ok := m.(*view.Mesh); ok {
		var w winner
		for c := range v.Candidates(p.Kind, service) {
			w.outbound(c, sources, service)
		}
		return w.best
	}
	var w winner
	for c := range m.Candidates(p.Kind, service) {
		w.outbound(c, sources, service)
	}
	return w.best
}

// inbound chooses the policy for the connections to an inbound: the one with the best
// destination for the inbound's tags. Sources play no part; they say whom the policy is about.
// It returns nil if none matches.
func inbound(m Candidates, p *policy.Policy, tags mesh.Tags) *view.Policy {
	if v, ok := m.(*view.Mesh); ok {
		var w winner
		for c := range v.Candidates(p.Kind, tags.Service()) {
			w.inbound(c, tags)
		}
		return w.best
	}
	var w winner
	for c := range m.Candidates(p.Kind, tags.Service()) {
		w.inbound(c, tags)
	}
	return w.best
}

// proxy chooses the policy for a whole proxy: the one with the best selector for one of the
// proxy's tag sets. A policy without selectors matches every proxy, with the lowest rank. It
// returns nil if none matches.
func proxy(m Candidates, p *policy.Policy, sets []mesh.Tags) *view.Policy {
	if v, ok := m.(*view.Mesh); ok {
		var w winner
		for _, tags := range sets {
			for c := range v.Candidates(p.Kind, tags.Service()) {
				w.inbound(c, tags)
			}
		}
		return w.best
	}
	var w winner
	for _, tags := range sets {
		for c := range m.Candidates(p.Kind, tags.Service()) {
			w.inbound(c, tags)
		}
	}
	return w.best
}

// allInbound chooses every policy that matches an inbound's tags, each once and in order. A
// policy with targets that speaks of called services alone is about no inbound.
func allInbound(m Candidates, p *policy.Policy, tags mesh.Tags) []*view.Policy {
	var out []*view.Policy
	for c := range m.Candidates(p.Kind, tags.Service()) {
		if c.Targets != nil && len(c.Sources) == 0 && len(c.Destinations) > 0 {
			continue
		}
		if _, ok := bestOf(c.Selectors(), tags); ok {
			out = append(out, c)
		}
	}
	return ordered(p, out)
}

// allOutbound chooses every policy that matches the connections of a proxy to a service, in
// order. A policy with targets that names no called services is about no connections.
func allOutbound(m Candidates, p *policy.Policy, sources []mesh.Tags, service string) []*view.Policy {
	var out []*view.Policy
	for c := range m.Candidates(p.Kind, service) {
		if c.Targets != nil && len(c.Destinations) == 0 {
			continue
		}
		if _, to := bestForService(c.Destinations, service); !to {
			continue
		}
		if _, from := bestOfAny(c.Clients(), sources); from {
			out = append(out, c)
		}
	}
	return ordered(p, out)
}

// allProxy chooses every policy that matches one of the tag sets of a proxy, each once and in
// order.
func allProxy(m Candidates, p *policy.Policy, sets []mesh.Tags) []*view.Policy {
	var out []*view.Policy
	for _, tags := range sets {
		for c := range m.Candidates(p.Kind, tags.Service()) {
			if _, ok := bestOf(c.Selectors(), tags); ok && !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return ordered(p, out)
}

// ordered sorts policies, the best first.
func ordered(p *policy.Policy, chosen []*view.Policy) []*view.Policy {
	order := p.Order
	if order == nil {
		order = func(a, b *view.Policy) int {
			return cmp.Or(firstSource(b).Compare(firstSource(a)), policy.Tie(a, b))
		}
	}
	slices.SortFunc(chosen, order)
	return chosen
}

// winner keeps the best of the policies that it is offered.
type winner struct {
	best *view.Policy
	rank mesh.Rank
}

func (w *winner) outbound(c *view.Policy, sources []mesh.Tags, service string) {
	to, ok := bestForService(c.Destinations, service)
	if !ok {
		return
	}
	if from, ok := bestOfAny(c.Clients(), sources); ok {
		w.offer(c, from.Add(to))
	}
}

func (w *winner) inbound(c *view.Policy, tags mesh.Tags) {
	if to, ok := bestOf(c.Selectors(), tags); ok {
		w.offer(c, to)
	}
}

func (w *winner) offer(c *view.Policy, rank mesh.Rank) {
	if w.best != nil {
		if d := w.rank.Compare(rank); d > 0 || d == 0 && policy.Tie(w.best, c) <= 0 {
			return
		}
	}
	w.best, w.rank = c, rank
}

// bestOf returns the best rank of the selectors that match a tag set. An empty list of
// selectors matches everything.
func bestOf(selectors []mesh.Tags, tags mesh.Tags) (best mesh.Rank, ok bool) {
	ok = len(selectors) == 0
	for _, s := range selectors {
		if !mesh.Matches(s, tags) {
			continue
		}
		if r := mesh.RankOf(s); !ok || r.Compare(best) > 0 {
			best, ok = r, true
		}
	}
	return best, ok
}

// firstOf returns the rank of the first selector that matches a tag set. An empty list of selectors
// matches everything.
func firstOf(selectors []mesh.Tags, tags mesh.Tags) (mesh.Rank, bool) {
	for _, s := range selectors {
		if mesh.Matches(s, tags) {
			return mesh.RankOf(s), true
		}
	}
	return mesh.Rank{}, len(selectors) == 0
}

// bestOfAny does what bestOf does, over several tag sets.
func bestOfAny(selectors, sets []mesh.Tags) (best mesh.Rank, ok bool) {
	ok = len(selectors) == 0
	for _, tags := range sets {
		if r, matches := bestOf(selectors, tags); matches && (!ok || r.Compare(best) > 0) {
			best, ok = r, true
		}
	}
	return best, ok
}

// bestForService does what bestOf does, for the tag set with nothing but a service.
func bestForService(selectors []mesh.Tags, service string) (best mesh.Rank, ok bool) {
	ok = len(selectors) == 0
next:
	for _, s := range selectors {
		for k, want := range s {
			if k != mesh.TagService || want != mesh.AnyValue && want != service {
				continue next
			}
		}
		if r := mesh.RankOf(s); !ok || r.Compare(best) > 0 {
			best, ok = r, true
		}
	}
	return best, ok
}

func firstSource(p *view.Policy) mesh.Rank {
	if len(p.Sources) == 0 {
		return mesh.Rank{}
	}
	return mesh.RankOf(p.Sources[0])
}
