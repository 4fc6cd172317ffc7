package publish

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// bury drops what is known of dataplanes that a change has deleted, and notes this for the
// planner. Connected proxies are dropped when they leave. Without bury, an entry would stay
// for each name that was ever used, and would keep the tables of its last set in memory.
func (p *meshPlane) bury(change view.Change[*view.Mesh]) {
	for dataplane := range p.deleted(change) {
		p.forget(dataplane)
		if p.secured[dataplane] || p.noted[dataplane] {
			delete(p.secured, dataplane)
			p.noted[dataplane] = false
		} else {
			delete(p.noted, dataplane)
		}
	}
}

// deleted returns the dataplanes that a change has deleted and whose proxies are not
// connected.
func (p *meshPlane) deleted(change view.Change[*view.Mesh]) map[string]bool {
	out := map[string]bool{}
	may := func(dataplane string) {
		if _, joined := p.joined[dataplane]; !joined && p.isGone(dataplane) {
			out[dataplane] = true
		}
	}
	for _, key := range change.Keys {
		if key.Kind == mesh.Dataplanes.Name {
			may(key.Name)
		}
	}
	if change.All {
		for dataplane := range p.secured {
			may(dataplane)
		}
		for _, dataplane := range p.remembered() {
			may(dataplane)
		}
	}
	return out
}

// isGone reports whether the newest state that was taken lacks a dataplane.
func (p *meshPlane) isGone(dataplane string) bool {
	_, exists := p.state.Dataplane(dataplane)
	return !exists
}

// gone reports whether a node is a proxy whose dataplane, resource of the zone, or control plane was deleted. The
// caller holds the lock of the plane.
func gone(p plane, id string) bool {
	switch p := p.(type) {
	case *zonePlane:
		return p.goneFromZone(id)
	case *gatewayPlane:
		return p.deleted
	case *meshPlane:
		return p.isGone(strings.TrimPrefix(id, p.name+"."))
	}
	return false
}

// bury drops what is remembered of a deleted node, unless the node is connected.
func (l *Loop) bury(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buryOne(id)
}

// buryOne is bury for a caller that holds mu.
func (l *Loop) buryOne(id string) {
	if l.nodes[id] == nil {
		l.away.drop(id)
		l.confirmed.forget(id)
	}
}

// buryAll drops what is remembered of the nodes whose ids have a prefix, except for connected ones.
func (l *Loop) buryAll(prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.away.nodes {
		if strings.HasPrefix(id, prefix) {
			l.buryOne(id)
		}
	}
}

// remembered lists the dataplanes of a mesh whose proxies are away.
func (l *Loop) remembered(meshName string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.away.nodes {
		if dataplane, of := strings.CutPrefix(id, meshName+"."); of {
			out = append(out, dataplane)
		}
	}
	return out
}
