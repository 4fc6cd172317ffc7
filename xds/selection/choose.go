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

// OnConnection returns what a policy chooses for the connections of a proxy to a service, or
// nil. place is ByOutbound or ByDestination; a policy that is not chosen at that sort of place
// chooses nothing.
func OnConnection(m Candidates, p *policy.Policy, place policy.Attachment, sources []mesh.Tags, service string) *view.Policy {
	if !p.Attachment.Has(place) {
		return nil
	}
	return outbound(m, p, sources, service)
}

// OnInbound appends what a policy chooses for an inbound with some tags, best first. A policy
// that is not chosen for inbounds chooses nothing.
func OnInbound(into []*view.Policy, m Candidates, p *policy.Policy, tags mesh.Tags) []*view.Policy {
	switch {
	case p.Attachment.Has(policy.AllByInbound):
		return append(into, allInbound(m, p, tags)...)
	case p.Attachment.Has(policy.ByInbound):
		if one := inbound(m, p, tags); one != nil {
			return append(into, one)
		}
	}
	return into
}

// OnProxy returns what a policy chooses for a whole proxy, or nil. A policy that is not chosen
// for whole proxies chooses nothing.
func OnProxy(m Candidates, p *policy.Policy, sets []mesh.Tags) *view.Policy {
	if !p.Attachment.Has(policy.ByProxy) {
		return nil
	}
	return proxy(m, p, sets)
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

// allInbound chooses every policy with a destination that matches an inbound's tags, each
// once. It orders them by the rank of their first source, best first, then the later created
// first, then by name.
func allInbound(m Candidates, p *policy.Policy, tags mesh.Tags) []*view.Policy {
	var out []*view.Policy
	for c := range m.Candidates(p.Kind, tags.Service()) {
		if _, ok := bestOf(c.Destinations, tags); ok {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *view.Policy) int {
		return cmp.Or(firstSource(b).Compare(firstSource(a)), tie(a, b))
	})
	return out
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
	if from, ok := bestOfAny(c.Sources, sources); ok {
		w.offer(c, from.Add(to))
	}
}

func (w *winner) inbound(c *view.Policy, tags mesh.Tags) {
	if to, ok := bestOf(c.Destinations, tags); ok {
		w.offer(c, to)
	}
}

func (w *winner) offer(c *view.Policy, rank mesh.Rank) {
	if w.best != nil {
		if d := w.rank.Compare(rank); d > 0 || d == 0 && tie(w.best, c) <= 0 {
			return
		}
	}
	w.best, w.rank = c, rank
}

// tie orders policies of equal rank: the later created one first, then by name.
func tie(a, b *view.Policy) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
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
