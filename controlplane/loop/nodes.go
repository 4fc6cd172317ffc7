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
	"github.com/meshgate/meshgate/xds/plan/gateway"
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

// Connect registers a stream of a node that was authenticated. When it returns,
// the node's set is published. The caller calls release when the stream has
// ended; with the last stream of a node it is dropped. A node whose parameters
// changed is planned by the new ones.
func (l *Loop) Connect(ctx context.Context, id string) (release func(), err error) {
	name, _, err := ParseNode(id)
	if err != nil {
		return nil, err
	}
	params, err := l.Parameters.Gateway(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("parameters of node %s: %w", id, err)
	}
	p, err := l.plane(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open control plane %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[id]
	if n != nil && n.class == params {
		n.streams++
		return l.release(id), nil
	}
	c := p.classes[params]
	if c == nil {
		c = &class{planner: gateway.NewPlanner(params)}
		if !l.plan(p, c, p.scope.State()) {
			return nil, fault.New(fault.Unavailable, "the configuration of control plane %s cannot be made", name)
		}
		p.classes[params] = c
	}
	if n == nil {
		n = &node{plane: p}
		l.nodes[id] = n
	} else {
		l.leave(n)
	}
	n.class = params
	n.streams++
	c.nodes++
	l.publish(map[string]*resource.Set{id: c.result.Set})
	return l.release(id), nil
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
	l.leave(n)
	delete(l.nodes, id)
	l.Publisher.Drop(id)
}

// leave takes a node out of its class; an empty class is forgotten.
func (l *Loop) leave(n *node) {
	c := n.plane.classes[n.class]
	if c.nodes--; c.nodes == 0 {
		delete(n.plane.classes, n.class)
	}
}

// HasPlugin reports whether the proxies of a control plane hold a plugin
// instance. Introspection answers for no other.
func (l *Loop) HasPlugin(controlPlane, plugin string) bool {
	l.mu.Lock()
	p := l.planes[controlPlane]
	l.mu.Unlock()
	if p == nil {
		return false
	}
	found, ok := p.scope.State().Plugin(plugin)
	return ok && found.Spec.Enabled
}

// Failure is something that is not published as it is configured.
type Failure struct {
	ControlPlane string
	plan.Failure
}

// Failures lists what keeps its last good version or is left out, ordered, each
// once however many proxies are concerned.
func (l *Loop) Failures() []Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	var out []Failure
	add := func(f Failure) {
		if k := f.ControlPlane + " " + f.Cell; !seen[k] {
			seen[k] = true
			out = append(out, f)
		}
	}
	for _, p := range l.planes {
		if p.failed != nil {
			add(Failure{p.name, plan.Failure{Cell: "plan", Err: p.failed, Kept: true}})
		}
		for _, c := range p.classes {
			for _, f := range c.result.Failures {
				add(Failure{p.name, f})
			}
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.ControlPlane, b.ControlPlane), cmp.Compare(a.Cell, b.Cell))
	})
	return out
}
