package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// ParseNode splits the id of an oauth-gateway, cp/<control plane>/<instance>.
// Invalid if it is not one.
func ParseNode(id string) (controlPlane, instance string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != "cp" || parts[1] == "" || parts[2] == "" {
		return "", "", fault.New(fault.Invalid, "node id %q is not cp/<control plane>/<instance>", id)
	}
	return parts[1], parts[2], nil
}

// ParseProxy splits the id of a proxy of a mesh, <mesh>.<dataplane>. Invalid if it
// is not one.
func ParseProxy(id string) (mesh, dataplane string, err error) {
	mesh, dataplane, ok := strings.Cut(id, ".")
	if !ok || mesh == "" || dataplane == "" || strings.Contains(id, "/") {
		return "", "", fault.New(fault.Invalid, "node id %q is not <mesh>.<dataplane>", id)
	}
	return mesh, dataplane, nil
}

// Connect registers a stream of a node that was authenticated. When it returns,
// the node's set is published. The caller calls release when the stream has
// ended; with the last stream of a node it is dropped. A gateway whose parameters
// changed is planned by the new ones. bare says that a proxy of a mesh has no
// filter.
func (l *Loop) Connect(ctx context.Context, id string, bare bool) (release func(), err error) {
	if strings.HasPrefix(id, "cp/") {
		return l.connectGateway(ctx, id)
	}
	meshName, dataplane, err := ParseProxy(id)
	if err != nil {
		return nil, err
	}
	p, err := l.mesh(ctx, meshName)
	if err != nil {
		return nil, fmt.Errorf("open mesh %s: %w", meshName, err)
	}
	for attempt := 0; ; attempt++ {
		release, err := l.joinMesh(id, dataplane, p, bare)
		if attempt > 0 || !fault.Is(err, fault.NotFound) {
			return release, err
		}
		// The dataplane may have been stored a moment ago.
		if err := l.Settled(ctx, l.Latest()); err != nil {
			return nil, err
		}
	}
}

func (l *Loop) joinMesh(id, dataplane string, p *meshPlane, bare bool) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, err := p.join(dataplane, bare)
	if err != nil {
		return nil, err
	}
	return l.connected(id, p, batch), nil
}

func (l *Loop) connectGateway(ctx context.Context, id string) (release func(), err error) {
	name, _, err := ParseNode(id)
	if err != nil {
		return nil, err
	}
	params, err := l.Parameters.Gateway(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("parameters of node %s: %w", id, err)
	}
	p, err := l.controlPlane(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open control plane %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	set, err := p.join(id, params)
	if err != nil {
		return nil, err
	}
	return l.connected(id, p, map[string]*resource.Set{id: set}), nil
}

// connected counts a stream and publishes what is new by it.
func (l *Loop) connected(id string, p plane, batch map[string]*resource.Set) func() {
	n := l.nodes[id]
	if n == nil {
		n = &node{plane: p}
		l.nodes[id] = n
	}
	n.streams++
	delete(l.away, id)
	l.publish(batch)
	return l.release(id)
}

// release ends one stream of a node, however often it is called.
func (l *Loop) release(id string) func() { return sync.OnceFunc(func() { l.disconnect(id) }) }

// disconnect ends one stream of a node; with the last one the node is dropped.
func (l *Loop) disconnect(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[id]
	if n == nil {
		return
	}
	if n.streams--; n.streams > 0 {
		return
	}
	l.away[id] = n.plane.set(id)
	n.plane.leave(id)
	delete(l.nodes, id)
	l.Publisher.Drop(id)
}

// Last returns what a node was sent last, be it connected or not, and whether it
// has confirmed all of it. It is nil for a node that was not seen by this process.
func (l *Loop) Last(id string) (set *resource.Set, acknowledged bool) {
	l.mu.Lock()
	if n := l.nodes[id]; n != nil {
		set = n.plane.set(id)
	} else {
		set = l.away[id]
	}
	l.mu.Unlock()
	return set, set != nil && set.Equal(l.confirmed.last(id))
}

// Forget drops what is remembered of a node that is gone for good.
func (l *Loop) Forget(id string) {
	l.mu.Lock()
	delete(l.away, id)
	l.mu.Unlock()
	l.confirmed.forget(id)
}

// HasPlugin reports whether the proxies of a control plane hold a plugin
// instance. Introspection answers for no other.
func (l *Loop) HasPlugin(name, plugin string) bool {
	l.mu.Lock()
	p, ok := l.planes["cp/"+name].(*controlPlane)
	l.mu.Unlock()
	if !ok {
		return false
	}
	found, ok := p.scope.State().Plugin(plugin)
	return ok && found.Spec.Enabled
}

// Failure is something that is not published as it is configured.
type Failure struct {
	// ControlPlane, or Mesh and Dataplane, say whose it is.
	ControlPlane, Mesh, Dataplane string
	plan.Failure
}

// Failures lists what keeps its last good version or is left out, ordered, each
// once however many proxies of a kind are concerned.
func (l *Loop) Failures() []Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	var out []Failure
	for _, p := range l.planes {
		for _, f := range p.failures() {
			if k := f.ControlPlane + " " + f.Mesh + " " + f.Dataplane + " " + f.Cell; !seen[k] {
				seen[k] = true
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.ControlPlane, b.ControlPlane), cmp.Compare(a.Mesh, b.Mesh),
			cmp.Compare(a.Dataplane, b.Dataplane), cmp.Compare(a.Cell, b.Cell))
	})
	return out
}

// FailuresOf lists what of one proxy of a mesh is not published as configured.
func (l *Loop) FailuresOf(meshName, dataplane string) []plan.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.planes["mesh/"+meshName].(*meshPlane)
	if !ok {
		return nil
	}
	return p.planner.Failures(dataplane)
}

// Differences counts the batches that were not what a plan from nothing makes;
// 0 unless something is wrong here, or Options.Check is off.
func (l *Loop) Differences() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.differences
}
