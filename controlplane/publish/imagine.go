package publish

import (
	"context"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// Imagination is what a write that is not made would make of the scopes that it concerns: of
// their states, not yet of what their nodes have.
type Imagination struct {
	// scopes are in the order in which nodes are compared while there is room.
	scopes []imagined
}

// imagined is a scope before and after a write.
type imagined interface {
	// foresee plans both, for so many of the connected nodes as there is room for. The result is
	// not complete if ctx ends.
	foresee(ctx context.Context, l *Loop, room int) Foreseen
}

type imaginedPlane struct {
	plane *gatewayPlane
	view.Imagined[*view.Gateway]
}

type imaginedZone struct {
	plane *zonePlane
	view.Imagined[*view.Zone]
}

// imaginedMesh is a mesh. outside are the control planes that its policies look at and that the
// write concerns.
type imaginedMesh struct {
	plane *meshPlane
	view.Imagined[*view.Mesh]
	outside map[string]view.Imagined[*view.Gateway]
}

// Base holds states of scopes on which a transaction is based, by the scopes.
type Base struct{ states map[any]any }

// Imagine returns what a transaction would make of the scopes that it concerns. It is called in
// the transaction, so it does not wait for anybody and plans nothing. If late is not empty, it
// lists scopes that do not show the state on which the transaction is based; the caller can try
// again once they do, see [Loop.Reached]. Scopes in base, which may be nil, are taken from there.
func (l *Loop) Imagine(d view.Draft, base *Base) (im *Imagination, late []string) {
	im = &Imagination{}
	if base == nil {
		base = &Base{}
	}
	for _, p := range l.concernedBy(d.Keys) {
		switch i, ok := p.imagine(l, base, d); {
		case !ok:
			late = append(late, p.id())
		case i != nil:
			im.scopes = append(im.scopes, i)
		}
	}
	return im, late
}

// imagine implements plane.
func (p *gatewayPlane) imagine(_ *Loop, base *Base, d view.Draft) (imagined, bool) {
	i, ok := p.imagineOn(base, d)
	return &imaginedPlane{p, i}, ok
}

// imagine implements plane. Most of what is written in a mesh makes nothing of the zone.
func (p *zonePlane) imagine(_ *Loop, base *Base, d view.Draft) (imagined, bool) {
	i, ok := p.imagineOn(base, d)
	if ok && !i.Moved() && i.Err == nil {
		return nil, true
	}
	return &imaginedZone{p, i}, ok
}

// imagine implements plane: a mesh, and what it sees of control planes.
func (p *meshPlane) imagine(l *Loop, base *Base, d view.Draft) (_ imagined, ok bool) {
	m := &imaginedMesh{plane: p, outside: map[string]view.Imagined[*view.Gateway]{}}
	if m.Imagined, ok = p.imagineOn(base, d); !ok {
		return nil, false
	}
	for name, g := range l.lookedAt(p) {
		if !slices.ContainsFunc(d.Keys, g.concerns) {
			continue
		}
		if m.outside[name], ok = g.imagineOn(base, d); !ok {
			return nil, false
		}
	}
	return m, true
}

// concernedBy lists the scopes that some changes concern, and the meshes that look at one of
// them, by their names. Meshes are last: they have the most nodes.
func (l *Loop) concernedBy(keys []model.Key) (out []plane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(l.planes)) {
		p := l.planes[id]
		concerned := slices.ContainsFunc(keys, p.concerns)
		if m, ok := p.(*meshPlane); ok && !concerned {
			for name := range l.looksAt[m.name] {
				g := l.planes[ControlPlaneScope(name)]
				concerned = concerned || g != nil && slices.ContainsFunc(keys, g.concerns)
			}
		}
		if concerned {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b plane) int { return last(a) - last(b) })
	return out
}

// last is 1 for a mesh, and 0 for others.
func last(p plane) int {
	if _, ok := p.(*meshPlane); ok {
		return 1
	}
	return 0
}

// lookedAt returns the followed control planes that the policies of a mesh look at.
func (l *Loop) lookedAt(p *meshPlane) map[string]*gatewayPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]*gatewayPlane{}
	for name := range l.looksAt[p.name] {
		if g, ok := l.planes[ControlPlaneScope(name)].(*gatewayPlane); ok {
			out[name] = g
		}
	}
	return out
}

// Reached waits until scopes show a revision, cannot be read, or are not followed any more: the next
// [Loop.Imagine] no longer finds those. The error is that of ctx.
func (l *Loop) Reached(ctx context.Context, revision uint64, scopes []string) error {
	for _, p := range l.seenBy(scopes) {
		if err := p.reach(ctx, revision, p.common().over); err != nil {
			return err
		}
	}
	return nil
}

// ReadBase reads the states of scopes in a transaction that has written nothing yet. Where writes
// follow so closely that no scope ever shows the newest state, this is how to get one. It reads
// everything, so it is not the first thing to try. What cannot be read is left out: the write does
// not fail because of it.
func (l *Loop) ReadBase(d view.Draft, scopes []string) *Base {
	b := &Base{states: map[any]any{}}
	for _, p := range l.seenBy(scopes) {
		p.read(d, b)
	}
	return b
}

// seenBy returns the planes of scopes that are followed, and those of control planes at which
// meshes among them look.
func (l *Loop) seenBy(scopes []string) (out []plane) {
	for _, p := range l.named(scopes) {
		out = append(out, p)
		if m, ok := p.(*meshPlane); ok {
			for _, g := range l.lookedAt(m) {
				out = append(out, g)
			}
		}
	}
	return out
}

// named returns the planes of scopes that are followed.
func (l *Loop) named(scopes []string) (out []plane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range scopes {
		if p := l.planes[id]; p != nil {
			out = append(out, p)
		}
	}
	return out
}
