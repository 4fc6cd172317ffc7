package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
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
	// named finds upstreams by their names in lower case.
	named table[*Upstream]
	// members are the targets by id, members of an upstream by its id.
	members table[*Target]
	pools   table[*Targets]
}

// Upstream returns the upstream that a host of a service names, in any case.
func (b *balancing) Upstream(host string) (*Upstream, bool) {
	return b.named.get(strings.ToLower(host))
}

// Targets returns the targets of an upstream; nil if it has none.
func (b *balancing) Targets(upstream string) *Targets {
	t, _ := b.pools.get(upstream)
	return t
}

// balancingDraft is the next balancing while it is being made.
type balancingDraft struct {
	upstreams, named *edit[*Upstream]
	members          *edit[*Target]
	pools            *edit[*Targets]
}

func (b *balancing) draft() balancingDraft {
	return balancingDraft{editOf(b.upstreams), editOf(b.named), editOf(b.members), editOf(b.pools)}
}

func (d *balancingDraft) freeze() balancing {
	return balancing{d.upstreams.table, d.named.table, d.members.table, d.pools.table}
}

func (d *balancingDraft) put(res *model.Resource) {
	switch res.Kind.Name {
	case gateway.Upstreams.Name:
		d.drop(res.Kind, res.Name)
		u := entryOf[gateway.Upstream](res)
		d.upstreams.put(u.ID, u)
		d.named.put(strings.ToLower(u.Spec.Name), u)
	case gateway.Targets.Name:
		d.drop(res.Kind, res.Name)
		t := entryOf[gateway.UpstreamTarget](res)
		d.members.put(t.ID, t)
		d.pool(t.Spec.Upstream, t.ID, t)
	}
}

func (d *balancingDraft) drop(k *model.Kind, id string) {
	switch k.Name {
	case gateway.Upstreams.Name:
		old, ok := d.upstreams.get(id)
		if !ok {
			return
		}
		d.upstreams.drop(id)
		// Another upstream may have taken the name in the same commit.
		name := strings.ToLower(old.Spec.Name)
		if u, ok := d.named.get(name); ok && u.ID == id {
			d.named.drop(name)
		}
	case gateway.Targets.Name:
		if old, ok := d.members.get(id); ok {
			d.members.drop(id)
			d.pool(old.Spec.Upstream, id, nil)
		}
	}
}

// pool puts t in the place of the target of that id of an upstream, or removes it
// if t is nil.
func (d *balancingDraft) pool(upstream, id string, t *Target) {
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
