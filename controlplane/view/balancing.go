package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

type (
	// Upstream is an upstream in a view.
	Upstream = Entry[gateway.Upstream]
	// Target is a target of an upstream in a view.
	Target = Entry[gateway.UpstreamTarget]
)

// Targets are the targets of one upstream in the order of their addresses. It is
// immutable; a change makes a new one.
type Targets struct{ List []*Target }

// balancing is the part of a control plane that spreads requests.
type balancing struct {
	upstreams table[*Upstream]
	// named finds upstreams by member and name in lower case.
	named table[*Upstream]
	// members are the targets by id, pools those of an upstream by member and its id.
	members table[*Target]
	pools   table[*Targets]
}

// balancingEdit is the next balancing while it is being made.
type balancingEdit struct {
	upstreams, named *edit[*Upstream]
	members          *edit[*Target]
	pools            *edit[*Targets]
}

func (b *balancing) draft() balancingEdit {
	return balancingEdit{editOf(b.upstreams), editOf(b.named), editOf(b.members), editOf(b.pools)}
}

func (d *balancingEdit) freeze() balancing {
	return balancing{d.upstreams.table, d.named.table, d.members.table, d.pools.table}
}

// byHost finds upstreams as hosts of services name them.
var byHost = index[*Upstream]{
	closes: true, // a service would be looked for by the name of its upstream
	enter:  func(d *gatewayEdit, _ string, u *Upstream) { d.named.put(hostKey(u), u) },
	leave: func(d *gatewayEdit, id string, u *Upstream) {
		name := hostKey(u)
		if at, ok := d.named.get(name); ok && at.ID == id {
			d.named.drop(name)
		}
	},
}

func hostKey(u *Upstream) string { return within(u.Scope, strings.ToLower(u.Spec.Name)) }

// byUpstream finds targets by their upstream.
var byUpstream = index[*Target]{
	enter: func(d *gatewayEdit, id string, t *Target) { d.pool(within(t.Scope, t.Spec.Upstream), id, t) },
	leave: func(d *gatewayEdit, id string, t *Target) { d.pool(within(t.Scope, t.Spec.Upstream), id, nil) },
}

// pool puts t in the place of the target of that id of an upstream, or removes it
// if t is nil.
func (d *balancingEdit) pool(upstream, id string, t *Target) {
	var next Targets
	if old, ok := d.pools.get(upstream); ok {
		next.List = slices.DeleteFunc(slices.Clone(old.List), func(o *Target) bool { return o.ID == id })
	}
	if t != nil {
		next.List = append(next.List, t)
		slices.SortFunc(next.List, func(a, b *Target) int {
			return cmp.Or(cmp.Compare(a.Spec.Address(), b.Spec.Address()), cmp.Compare(a.ID, b.ID))
		})
	}
	if len(next.List) == 0 {
		d.pools.drop(upstream)
		return
	}
	d.pools.put(upstream, &next)
}
