package view

import (
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// kinds are those of which a view holds every resource, each with how it is held. A new
// one is a line here and a table in the state.
var kinds = []kept{
	keep(gateway.Services, func(d *gatewayEdit) *edit[*Service] { return d.services }, entryOf[gateway.Service]),
	keep(gateway.Routes, func(d *gatewayEdit) *edit[*Route] { return d.routes }, entryOf[gateway.Route], refusedToo),
	keep(gateway.Plugins, func(d *gatewayEdit) *edit[*Plugin] { return d.plugins }, pluginOf, byAnonymous, byTarget),
	keep(gateway.Upstreams, func(d *gatewayEdit) *edit[*Upstream] { return d.upstreams }, entryOf[gateway.Upstream], byHost),
	keep(gateway.Targets, func(d *gatewayEdit) *edit[*Target] { return d.members }, entryOf[gateway.UpstreamTarget], byUpstream),
	keep(gateway.Certificates, func(d *gatewayEdit) *edit[*Certificate] { return d.certificates }, certificateOf),
	keep(gateway.SNIs, func(d *gatewayEdit) *edit[*SNI] { return d.snis }, entryOf[gateway.SNI]).by(gateway.IndexName),
	keep(gateway.CACertificates, func(d *gatewayEdit) *edit[*CACertificate] { return d.authorities }, entryOf[gateway.CACertificate]),
}

// kept is how a view holds one kind.
type kept struct {
	kind *model.Kind
	// shared are the indexes whose values mean the same to all members of a group, as the
	// names do that clients ask for. What a member's resources name is looked up in there.
	shared []string
	put    func(d *gatewayEdit, res *model.Resource) error
	drop   func(d *gatewayEdit, scope, id string)
	// refuse shows a resource as one that is left out, where its absence would open
	// something; allow takes that back.
	refuse func(d *gatewayEdit, res *model.Resource)
	allow  func(d *gatewayEdit, key model.Key)
}

func (k kept) by(indexes ...string) kept {
	k.shared = indexes
	return k
}

// held is an entry of a view.
type held interface {
	// home is the scope of the resource.
	home() string
	leaveOut()
}

// index finds the entries of a table by something else than their id. What it does not
// need is nil.
type index[V any] struct {
	// before sees an entry while the one that it replaces is still there. An error of it
	// ends the edit.
	before func(d *gatewayEdit, next V) error
	// enter and leave add an entry and take it away. Another resource may have taken its
	// place in the same commit.
	enter, leave func(d *gatewayEdit, id string, v V)
	// closes says that entries which are left out are found too.
	closes bool
}

// keep holds the resources of a kind in a table, as of makes entries of them, and in
// indexes of it.
func keep[V held](k *model.Kind, in func(*gatewayEdit) *edit[V], of func(*model.Resource) V, indexes ...index[V]) kept {
	remove := func(d *gatewayEdit, id string, old V) {
		in(d).drop(id)
		for _, x := range indexes {
			if x.leave != nil {
				x.leave(d, id, old)
			}
		}
	}
	drop := func(d *gatewayEdit, scope, id string) {
		if old, ok := own(in(d).table, scope, id); ok {
			remove(d, id, old)
		}
	}
	put := func(d *gatewayEdit, res *model.Resource) error {
		next := of(res)
		for _, x := range indexes {
			if x.before == nil {
				continue
			}
			if err := x.before(d, next); err != nil {
				return err
			}
		}
		if old, ok := in(d).get(res.Name); ok {
			remove(d, res.Name, old) // of whatever member
		}
		in(d).put(res.Name, next)
		for _, x := range indexes {
			if x.enter != nil {
				x.enter(d, res.Name, next)
			}
		}
		return nil
	}
	return kept{kind: k, put: put, drop: drop, refuse: refuser(of, indexes), allow: allower(indexes)}
}

// refuser notes an entry that is left out, in the indexes that show those too.
func refuser[V held](of func(*model.Resource) V, indexes []index[V]) func(*gatewayEdit, *model.Resource) {
	return func(d *gatewayEdit, res *model.Resource) {
		for _, x := range indexes {
			if !x.closes {
				continue
			}
			next := of(res)
			next.leaveOut()
			d.refused.put(textOf(res.Key()), next)
			if x.enter != nil {
				x.enter(d, res.Name, next)
			}
		}
	}
}

// allower takes back what a refuser noted.
func allower[V held](indexes []index[V]) func(*gatewayEdit, model.Key) {
	return func(d *gatewayEdit, key model.Key) {
		noted, _ := d.refused.get(textOf(key))
		old, ok := noted.(V)
		if !ok {
			return
		}
		d.refused.drop(textOf(key))
		for _, x := range indexes {
			if x.closes && x.leave != nil {
				x.leave(d, key.Name, old)
			}
		}
	}
}

// keptAs is how a view holds the resources of a kind; nil if it does not.
func keptAs(kind string) *kept {
	for i := range kinds {
		if kinds[i].kind.Name == kind {
			return &kinds[i]
		}
	}
	return nil
}
