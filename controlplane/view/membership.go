package view

import (
	"context"
	"errors"
	"math"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Membership is what a control plane consists of in all states from one revision to another.
type Membership struct {
	scopes.Members
	From, To uint64
	shapes   func(model.Key) bool
}

// forever is the membership of what cannot consist of anything else.
func forever(of scopes.Members) Membership {
	return Membership{Members: of, To: math.MaxUint64, shapes: func(model.Key) bool { return false }}
}

// Shapes reports whether a change of a key may change the membership.
func (m *Membership) Shapes(key model.Key) bool { return m.shapes(key) }

// Span is the commits after one revision and up to another.
type Span struct{ After, UpTo uint64 }

// Holds reports whether a revision is among them.
func (s Span) Holds(revision uint64) bool { return s.After < revision && revision <= s.UpTo }

// Gap returns the commits that may have made the membership another one than it was at a
// revision. There are none if it is known of that revision.
func (m *Membership) Gap(revision uint64) (gap Span, some bool) {
	switch {
	case revision < m.From:
		return Span{revision, m.From}, true
	case revision > m.To:
		return Span{m.To, revision}, true
	}
	return Span{}, false
}

// Membership returns what a control plane consists of in the newest state. It is for those
// who do not follow the control plane, such as because it cannot be read.
func (v *Views) Membership(ctx context.Context, name string) (*Membership, error) {
	if scopes.Lasts(v.resolver, name) {
		m := forever(scopes.Of(nil, name).Members)
		return &m, nil
	}
	m := &Membership{shapes: func(key model.Key) bool { return v.resolver.Shapes(name, key) }}
	err := v.store.View(ctx, func(r store.Reader) error {
		src, err := v.resolver.Resolve(r, name)
		m.Members, m.From, m.To = src.Members, r.Revision(), r.Revision()
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Shaped returns those of some control planes that may consist of something else since a
// commit of the span that each is given with. These are all whose commits the store no longer
// remembers. It waits for what is not announced yet.
func (v *Views) Shaped(ctx context.Context, spans map[string]Span) (map[string]bool, error) {
	out := map[string]bool{}
	if len(spans) == 0 {
		return out, nil
	}
	all := Span{After: math.MaxUint64}
	for _, s := range spans {
		all.After, all.UpTo = min(all.After, s.After), max(all.UpTo, s.UpTo)
	}
	for events, err := range v.store.Watch(ctx, all.After) {
		if lost, is := errors.AsType[*store.HistoryLost](err); is {
			return v.shapedSince(ctx, spans, lost.Oldest)
		}
		if err != nil {
			return nil, err
		}
		for name, s := range spans {
			for i := range events {
				if s.Holds(events[i].Revision) && v.resolver.Shapes(name, events[i].Key) {
					out[name] = true
				}
			}
		}
		if events[0].Revision >= all.UpTo {
			return out, nil
		}
	}
	return nil, ctx.Err()
}

// shapedSince does what Shaped does when the store remembers nothing before a revision.
func (v *Views) shapedSince(ctx context.Context, spans map[string]Span, oldest uint64) (map[string]bool, error) {
	rest, unknown := map[string]Span{}, map[string]bool{}
	for name, s := range spans {
		if s.After+1 < oldest {
			unknown[name] = true
		} else {
			rest[name] = s
		}
	}
	if len(unknown) == 0 { // it has forgotten something else, such as a whole past
		for name := range spans {
			unknown[name] = true
		}
		return unknown, nil
	}
	out, err := v.Shaped(ctx, rest)
	for name := range unknown {
		if out != nil {
			out[name] = true
		}
	}
	return out, err
}
