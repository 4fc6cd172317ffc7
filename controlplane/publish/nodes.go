package publish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// ParseNode splits the id of an oauth-gateway, cp/<control plane>/<instance>. Other ids are
// Invalid.
func ParseNode(id string) (controlPlane, instance string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != "cp" || parts[1] == "" || parts[2] == "" {
		return "", "", fault.New(fault.Invalid, "node id %q is not cp/<control plane>/<instance>", id)
	}
	return parts[1], parts[2], nil
}

// ParseProxy splits the id of a proxy of a mesh, <mesh>.<dataplane>. Other ids are Invalid.
func ParseProxy(id string) (meshName, dataplane string, err error) {
	meshName, dataplane, ok := strings.Cut(id, ".")
	if !ok || meshName == "" || dataplane == "" || strings.Contains(id, "/") {
		return "", "", fault.New(fault.Invalid, "node id %q is not <mesh>.<dataplane>", id)
	}
	return meshName, dataplane, nil
}

// Connect registers a stream of an authenticated node. When it returns, the set of the node
// is published. The caller calls release when the stream has ended. The node is dropped
// with its last stream. A gateway whose parameters have changed is planned with the new
// ones. bare says that a proxy of a mesh has no filter.
func (l *Loop) Connect(ctx context.Context, id string, bare bool) (release func(), err error) {
	if strings.HasPrefix(id, "cp/") {
		return l.connectGateway(ctx, id)
	}
	if _, _, ok := mesh.ParseZoneNode(id); ok {
		return l.connectZone(ctx, id)
	}
	meshName, dataplane, err := ParseProxy(id)
	if err != nil {
		return nil, err
	}
	p, err := l.mesh(ctx, meshName)
	if err != nil {
		return nil, fmt.Errorf("open mesh %s: %w", meshName, err)
	}
	defer l.entered(p)
	release, err = l.enterMesh(ctx, id, dataplane, p, bare)
	if !fault.Is(err, fault.NotFound) {
		return release, err
	}
	// The dataplane may have been stored a moment ago. Its mesh may not have taken it yet.
	if stuck := l.await(ctx, p, l.Latest()); stuck != nil {
		return nil, stuck
	}
	return l.enterMesh(ctx, id, dataplane, p, bare)
}

// await waits until a mesh has planned a revision of its own scope. It does not wait for
// the control planes that the mesh looks at. It fails with Unavailable if the mesh is
// stuck.
func (l *Loop) await(ctx context.Context, p *meshPlane, revision uint64) error {
	for {
		l.mu.Lock()
		shown, moved := p.announced.reached >= revision, l.moved
		l.mu.Unlock()
		if shown {
			return nil
		}
		if failed := l.stuck(p); failed != nil {
			return fault.Wrap(fault.Unavailable, failed, "mesh %s does not show its newest state", p.name)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Loop) joinMesh(id, dataplane string, p *meshPlane, bare bool) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	sets, err := p.join(dataplane, bare, now)
	if err != nil {
		l.show(p, sets)
		p.signal()
		return nil, err
	}
	if err := p.list(dataplane, nil); err != nil {
		p.tell(err, now)
		p.signal()
	}
	l.problems.replace(p.id(), dataplane, p.listed[dataplane])
	return l.connected(id, p, sets, func() {
		if sets := p.less(dataplane, bare, time.Now()); len(sets) > 0 {
			l.show(p, sets)
		}
		if !p.due().IsZero() {
			p.signal()
		}
	}), nil
}

// connected counts a stream and publishes the sets that are new because of it. less may be
// nil. It is called when a stream ends that is not the last of its node. The lock of the
// plane is held by the caller of connected, and whenever less is called.
func (l *Loop) connected(id string, p plane, sets batch, less func()) func() {
	l.mu.Lock()
	n := l.nodes[id]
	if n == nil {
		n = &node{plane: p}
		l.nodes[id] = n
	}
	n.streams++
	l.away.drop(id)
	l.mu.Unlock()
	l.announce(p, sets)
	return sync.OnceFunc(func() { l.disconnect(id, p, less) })
}

// disconnect ends one stream of a node. The node is dropped with its last stream.
func (l *Loop) disconnect(id string, p plane, less func()) {
	p.common().mu.Lock()
	defer p.common().mu.Unlock()
	if !l.forsaken(id, gone(p, id)) {
		if less != nil {
			less()
		}
		return
	}
	p.leave(id, time.Now())
	l.relist(p, id)
	l.Publisher.Drop(id)
	if !p.due().IsZero() {
		p.common().signal()
	}
	l.reap(p)
}

// relist takes the failures of a node that has left from those of its plane. Without it, they would count
// until the plane is planned the next time. The caller holds the lock of the plane.
func (l *Loop) relist(p plane, id string) {
	m, ok := p.(*meshPlane)
	if !ok {
		l.problems.set(p.id(), p.failures())
		return
	}
	// A mesh may have thousands of proxies that leave at once, and failures of each of them. So only
	// those of this proxy are touched.
	dataplane := strings.TrimPrefix(id, m.name+".")
	delete(m.listed, dataplane)
	l.problems.replace(m.id(), dataplane, nil)
}

// forsaken removes one stream of a node and reports whether it was the last. The node is
// then remembered as away, or forgotten if its dataplane was deleted.
func (l *Loop) forsaken(id string, gone bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[id]
	if n == nil {
		return false
	}
	if n.streams--; n.streams > 0 {
		return false
	}
	forgotten := id
	if !gone {
		forgotten = l.away.put(id, n.set)
	}
	if forgotten != "" {
		l.confirmed.forget(forgotten)
	}
	delete(l.nodes, id)
	return true
}

// Last returns the set that was last published for a node, connected or not, and the newest
// set that the node has answered completely. A refusal counts as an answer. Both are nil
// for a node that this process has not seen.
func (l *Loop) Last(id string) (set, answered *resource.Set) {
	l.mu.Lock()
	if n := l.nodes[id]; n != nil {
		set = n.set
	} else {
		set = l.away.get(id)
	}
	l.mu.Unlock()
	return set, l.confirmed.last(id)
}

// Forget drops what is remembered of a node that will not return.
func (l *Loop) Forget(id string) {
	l.mu.Lock()
	l.away.drop(id)
	l.mu.Unlock()
	l.confirmed.forget(id)
}

// HasPlugin reports whether the proxies of a control plane have a plugin instance.
// Introspection answers only for such instances and calls this on every request. So
// HasPlugin does not wait for a round: it reads the newest state of the view, which is
// immutable.
func (l *Loop) HasPlugin(name, plugin string) bool {
	followed, ok := l.followed.Load(name)
	if !ok {
		return false
	}
	found, ok := followed.(*view.Scope[*view.Gateway]).State().Plugin(plugin)
	return ok && found.Spec.Enabled
}

// LeftOut lists what clashes in a control plane that consists of others, as its view knows it, and the
// revision that the view shows. It is not known of one that is not followed, because no gateway of it
// has come yet, or whose view cannot follow the store.
func (l *Loop) LeftOut(name string) (list []scopes.Clash, revision uint64, known bool) {
	followed, ok := l.followed.Load(name)
	if !ok {
		return nil, 0, false
	}
	scope := followed.(*view.Scope[*view.Gateway])
	state := scope.State()
	return state.LeftOut(), state.Revision(), scope.Err() == nil
}

// Failure describes something that is not published as configured.
type Failure struct {
	// ControlPlane, or Mesh and Dataplane, name the owner.
	ControlPlane, Mesh, Dataplane string
	plan.Failure
}

// Failures lists what keeps its last good version or is left out. It covers the named
// scopes, or all scopes if called without arguments. The list is sorted. Each failure is
// listed once, however many proxies of a kind have it. Failures never waits for a plan.
func (l *Loop) Failures(scopes ...string) []Failure {
	seen := map[string]bool{}
	var out []Failure
	if scopes != nil && len(scopes) == 0 {
		return nil
	}
	for _, f := range l.problems.list(scopes...) {
		if f.Awaited {
			continue // nothing is left out
		}
		if k := f.ControlPlane + " " + f.Mesh + " " + f.Dataplane + " " + f.Cell; !seen[k] {
			seen[k] = true
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.ControlPlane, b.ControlPlane), cmp.Compare(a.Mesh, b.Mesh),
			cmp.Compare(a.Dataplane, b.Dataplane), cmp.Compare(a.Cell, b.Cell))
	})
	return out
}

// FailuresOf lists what is not published as configured for one proxy or leads nowhere, and
// what keeps its whole scope from being published. It never waits for a plan. Its cost does
// not depend on the number of proxies.
func (l *Loop) FailuresOf(scope, proxy string) []plan.Failure {
	return l.problems.of(scope, proxy)
}

// Differences counts the batches that differed from a plan made from nothing. It is 0
// unless the planner has a bug, or if Options.Check is off.
func (l *Loop) Differences() int { return int(l.differences.Load()) }
