package view

import (
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// kinds are those of which a view holds every resource, each with how it is held. A new
// one is a line here and a table in the state.
var kinds = []kept{
	keep(gateway.Services, func(d *gatewayEdit) *edit[*Service] { return d.services }, entryOf[gateway.Service]),
	keep(gateway.Routes, func(d *gatewayEdit) *edit[*Route] { return d.routes }, entryOf[gateway.Route]),
	keep(gateway.Plugins, func(d *gatewayEdit) *edit[*Plugin] { return d.plugins }, pluginOf, byAnonymous, byTarget),
	keep(gateway.Upstreams, func(d *gatewayEdit) *edit[*Upstream] { return d.upstreams }, entryOf[gateway.Upstream], byHost),
	keep(gateway.Targets, func(d *gatewayEdit) *edit[*Target] { return d.members }, entryOf[gateway.UpstreamTarget], byUpstream),
	keep(gateway.Certificates, func(d *gatewayEdit) *edit[*Certificate] { return d.certificates }, certificateOf),
	keep(gateway.SNIs, func(d *gatewayEdit) *edit[*SNI] { return d.snis }, entryOf[gateway.SNI]),
	keep(gateway.CACertificates, func(d *gatewayEdit) *edit[*CACertificate] { return d.authorities }, entryOf[gateway.CACertificate]),
}

// kept is how a view holds one kind.
type kept struct {
	kind *model.Kind
	put  func(d *gatewayEdit, res *model.Resource) error
	drop func(d *gatewayEdit, id string)
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
}

// keep holds the resources of a kind in a table, as of makes entries of them, and in
// indexes of it.
func keep[V any](k *model.Kind, in func(*gatewayEdit) *edit[V], of func(*model.Resource) V, indexes ...index[V]) kept {
	drop := func(d *gatewayEdit, id string) {
		old, ok := in(d).get(id)
		if !ok {
			return
		}
		in(d).drop(id)
		for _, x := range indexes {
			if x.leave != nil {
				x.leave(d, id, old)
			}
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
		drop(d, res.Name)
		in(d).put(res.Name, next)
		for _, x := range indexes {
			if x.enter != nil {
				x.enter(d, res.Name, next)
			}
		}
		return nil
	}
	return kept{k, put, drop}
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
