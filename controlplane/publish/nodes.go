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
	"github.com/meshgate/meshgate/controlplane/view"
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
	defer l.entered(p)
	release, err = l.enterMesh(ctx, id, dataplane, p, bare)
	if !fault.Is(err, fault.NotFound) {
		return release, err
	}
	// The dataplane may have been stored a moment ago.
	if stuck := l.await(ctx, p, l.Latest()); stuck != nil {
		return nil, stuck
	}
	return l.enterMesh(ctx, id, dataplane, p, bare)
}

// await waits until a mesh has planned a revision of its own, whatever it looks at. It is
// Unavailable where the mesh is not going to at present.
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

// connected counts a stream and publishes what is new by it. less, if set, is called with
// the end of a stream that is not the last of its node. The caller holds the lock of the
// plane, and so does less have it.
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

// disconnect ends one stream of a node; with the last one the node is dropped.
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
	l.Publisher.Drop(id)
	if !p.due().IsZero() {
		p.common().signal()
	}
	l.reap(p)
}

// forsaken takes one stream off a node and reports whether it was the last: then the
// node is away, or forgotten if it is gone for good.
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

// Last returns what a node was sent last, be it connected or not, and the newest of
// that which it has answered as a whole, be it by a refusal. Both are nil for a node that
// was not seen by this process.
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

// Forget drops what is remembered of a node that is gone for good.
func (l *Loop) Forget(id string) {
	l.mu.Lock()
	l.away.drop(id)
	l.mu.Unlock()
	l.confirmed.forget(id)
}

// HasPlugin reports whether the proxies of a control plane hold a plugin
// instance. Introspection answers for no other, and asks with each look-up, so
// this waits for no round: it reads the newest state of the view, which is
// immutable.
func (l *Loop) HasPlugin(name, plugin string) bool {
	followed, ok := l.followed.Load(name)
	if !ok {
		return false
	}
	found, ok := followed.(*view.Scope[*view.Gateway]).State().Plugin(plugin)
	return ok && found.Spec.Enabled
}

// Failure is something that is not published as it is configured.
type Failure struct {
	// ControlPlane, or Mesh and Dataplane, say whose it is.
	ControlPlane, Mesh, Dataplane string
	plan.Failure
}

// Failures lists what keeps its last good version or is left out in the named
// scopes, without an argument in all of them: ordered, each once however many
// proxies of a kind are concerned. It never waits for a plan.
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

// FailuresOf lists what of one proxy is not published as configured or leads nowhere, and
// what keeps its whole scope from being published. It never waits for a plan, and costs the
// same however many proxies there are.
func (l *Loop) FailuresOf(scope, proxy string) []plan.Failure {
	return l.problems.of(scope, proxy)
}

// Differences counts the batches that were not what a plan from nothing makes;
// 0 unless something is wrong here, or Options.Check is off.
func (l *Loop) Differences() int { return int(l.differences.Load()) }
