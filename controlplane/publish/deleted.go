package publish

import (
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// coming counts the goroutines that are about to follow a control plane. deleted says that it was deleted
// meanwhile. It is forgotten with the last of them.
type coming struct {
	count   int
	deleted bool
}

// comes notes that the caller is about to follow a control plane that it has not found deleted. The caller
// calls end when it follows it, or does not. Without the note, a deletion in between would find nothing to
// end, and the plane that is added after it would stay.
func (l *Loop) comes(name string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.coming[name]
	if c == nil {
		c = &coming{}
		l.coming[name] = c
	}
	c.count++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.count--; c.count == 0 {
			delete(l.coming, name)
		}
	}
}

// ControlPlanes lists the control planes that are followed, or are about to be. [Loop.Deleted] ends those
// of them that were deleted, for a caller that has missed when.
func (l *Loop) ControlPlanes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Collect(maps.Keys(l.coming))
	for id := range l.planes {
		if name, is := planeOf(id); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// errDeleted is the error for callers that found a control plane before it ended.
func (p *gatewayPlane) errDeleted() error {
	return fault.New(fault.NotFound, "control plane %s was deleted", p.name)
}

// Deleted tells the loop that a control plane was deleted. It is not followed any more once its last
// gateway has left and no mesh looks at it. Otherwise what it held would stay in memory until a
// restart. A mesh looks at what its policies have once asked for until the mesh ends: its planner
// remembers what it made of it, and does not ask again for what it still uses. Its gateways are not
// remembered as away, neither those that have left nor those that leave later.
func (l *Loop) Deleted(name string) {
	if p := l.toEnd(name); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.deleted = true
		l.reap(p)
	}
	l.buryAll(ControlPlaneScope(name) + "/")
}

// toEnd returns a control plane that was deleted if it is followed. If not, who is about to follow it
// learns that it was deleted.
func (l *Loop) toEnd(name string) *gatewayPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.planes[ControlPlaneScope(name)].(*gatewayPlane)
	if c := l.coming[name]; c != nil {
		c.deleted = true
	}
	return p
}

// lookers reports whether meshes look at a plane, and so use its view: those whose policies have asked
// for it since they are followed. The caller holds mu.
func (l *Loop) lookers(p plane) bool {
	g, ok := p.(*gatewayPlane)
	if !ok {
		return false
	}
	for _, looks := range l.looksAt {
		if _, ok := looks[g.name]; ok {
			return true
		}
	}
	return false
}
