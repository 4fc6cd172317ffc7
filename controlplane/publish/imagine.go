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
	meshes []imaginedMesh
	planes []imaginedPlane
}

// imaginedMesh is a mesh before and after. outside are the control planes that its policies look
// at and that the write concerns.
type imaginedMesh struct {
	plane *meshPlane
	view.Imagined[*view.Mesh]
	outside map[string]view.Imagined[*view.Gateway]
}

type imaginedPlane struct {
	plane *gatewayPlane
	view.Imagined[*view.Gateway]
}

// Base holds states of scopes on which a transaction is based.
type Base struct {
	meshes map[*meshPlane]*view.Mesh
	planes map[*gatewayPlane]*view.Gateway
}

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
		ok := false
		switch p := p.(type) {
		case *zonePlane:
			continue // what becomes of proxies of zones is not foreseen
		case *gatewayPlane:
			var i view.Imagined[*view.Gateway]
			if i, ok = imagineOn(p.scope, base.planes[p], d); ok {
				im.planes = append(im.planes, imaginedPlane{p, i})
			}
		case *meshPlane:
			var m imaginedMesh
			if m, ok = l.imagineMesh(p, base, d); ok {
				im.meshes = append(im.meshes, m)
			}
		}
		if !ok {
			late = append(late, p.id())
		}
	}
	return im, late
}

// imagineMesh imagines a mesh, and what it sees of control planes.
func (l *Loop) imagineMesh(p *meshPlane, base *Base, d view.Draft) (m imaginedMesh, ok bool) {
	m = imaginedMesh{plane: p, outside: map[string]view.Imagined[*view.Gateway]{}}
	if m.Imagined, ok = imagineOn(p.scope, base.meshes[p], d); !ok {
		return m, false
	}
	for name, g := range l.lookedAt(p) {
		if !slices.ContainsFunc(d.Keys, g.concerns) {
			continue
		}
		i, ok := imagineOn(g.scope, base.planes[g], d)
		if !ok {
			return m, false
		}
		m.outside[name] = i
	}
	return m, true
}

// imagineOn imagines a scope, on a state that was read in the transaction if there is one.
func imagineOn[S interface {
	comparable
	view.State[S]
}](scope *view.Scope[S], base S, d view.Draft) (view.Imagined[S], bool) {
	var none S
	if base != none {
		return scope.ImagineFrom(base, d), true
	}
	return scope.Imagine(d)
}

// concernedBy lists the scopes that some changes concern, and the meshes that look at one of
// them, by their names.
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
	return out
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

// Reached waits until scopes show a revision, or cannot be read. The error is that of ctx.
func (l *Loop) Reached(ctx context.Context, revision uint64, scopes []string) error {
	for _, p := range l.named(scopes) {
		var err error
		switch p := p.(type) {
		case *gatewayPlane:
			_, err = p.scope.Await(ctx, revision)
		case *meshPlane:
			_, err = p.scope.Await(ctx, revision)
			for _, g := range l.lookedAt(p) {
				if err == nil {
					_, err = g.scope.Await(ctx, revision)
				}
			}
		}
		if err != nil {
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
	b := &Base{meshes: map[*meshPlane]*view.Mesh{}, planes: map[*gatewayPlane]*view.Gateway{}}
	// Each is read once: the writer's lock is held.
	read := func(g *gatewayPlane) {
		if b.planes[g] != nil {
			return
		}
		if state, err := g.scope.Read(d.Reader); err == nil {
			b.planes[g] = state
		}
	}
	for _, p := range l.named(scopes) {
		switch p := p.(type) {
		case *gatewayPlane:
			read(p)
		case *meshPlane:
			if state, err := p.scope.Read(d.Reader); err == nil {
				b.meshes[p] = state
			}
			for _, g := range l.lookedAt(p) {
				read(g)
			}
		}
	}
	return b
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
