package sidecar

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// picks holds what each policy chose for one cell, by the index of the policy. An entry is nil
// if the policy chose nothing or does not edit cells of this kind. The planner reuses picks
// for the next cell.
type picks []*policy.Selection

// These are the picks that are in use at one time.
const (
	atPiece       = iota // on an outbound or an inbound
	atDestination        // on one destination of the outbound
	inKey                // what goes into a key
	layers
)

// blank returns empty picks.
func (p *Planner) blank(layer int) picks {
	clear(p.picked[layer])
	return p.picked[layer]
}

type (
	edits  struct{ *policy.Policy }
	chosen = policy.Selection
)

func (e *edits) cluster(d *draft.Cluster, s *chosen) error {
	if e.Cluster == nil || s == nil {
		return nil
	}
	return e.Cluster(d, s)
}

func (e *edits) outbound(d *draft.Outbound, s *chosen) error {
	if e.Outbound == nil || s == nil {
		return nil
	}
	return e.Outbound(d, s)
}

func (e *edits) route(d *draft.Route, s *chosen) error {
	if e.Route == nil || s == nil {
		return nil
	}
	return e.Route(d, s)
}

func (e *edits) target(d *draft.Target, s *chosen) error {
	if e.Target == nil || s == nil {
		return nil
	}
	return e.Target(d, s)
}

func (e *edits) outboundRoutes(d *draft.Routes, s *chosen) error {
	if e.OutboundRoutes == nil || s == nil {
		return nil
	}
	return e.OutboundRoutes(d, s)
}

// inbound may also run without a selection, because the policy decides what happens if no
// policy permits anything.
func (e *edits) inbound(d *draft.Inbound, s *chosen) error {
	if e.Inbound == nil || (s == nil && !e.RunsUnchosen()) {
		return nil
	}
	return e.Inbound(d, s)
}

func (e *edits) inboundRoutes(d *draft.Routes, s *chosen) error {
	if e.InboundRoutes == nil || (s == nil && !e.RunsUnchosen()) {
		return nil
	}
	return e.InboundRoutes(d, s)
}

func (e *edits) callers(d *draft.Routes, s *chosen) error {
	if e.Callers == nil || s == nil {
		return nil
	}
	return e.Callers(d, s)
}

func (e *edits) demand(d *draft.Routes, s *chosen) error {
	if e.Demand == nil || s == nil {
		return nil
	}
	return e.Demand(d, s)
}

func (e *edits) listenerRoutes(d *draft.Routes, s *chosen) error {
	if e.ListenerRoutes == nil || s == nil {
		return nil
	}
	return e.ListenerRoutes(d, s)
}

// editInbound lets every policy edit that is not decided for by another one.
func (p *Planner) editInbound(all *policy.Choices, turn func(*edits, *chosen) error) error {
	for i, pol := range p.policies {
		if d := p.deciders[i]; d >= 0 && all.At(d) != nil {
			continue
		}
		if err := turn(&edits{pol}, all.At(i)); err != nil {
			return err
		}
	}
	return nil
}

// decidersOf returns, for each policy, the index of the one that decides instead of it, or -1.
func decidersOf(policies []*policy.Policy) []int {
	out := make([]int, len(policies))
	for i, pol := range policies {
		out[i] = -1
		if d := pol.Decider(policies); d != nil {
			out[i] = slices.Index(policies, d)
		}
	}
	return out
}

// edit lets every policy edit, phase by phase. p.policies is in this order.
func (p *Planner) edit(all *policy.Choices, turn func(*edits, *chosen) error) error {
	for i, pol := range p.policies {
		if err := turn(&edits{pol}, all.At(i)); err != nil {
			return err
		}
	}
	return nil
}

// choose interns what a policy chose.
func (p *Planner) choose(pol *policy.Policy, chosen ...*view.Policy) *policy.Selection {
	if len(chosen) == 0 || chosen[0] == nil {
		return nil
	}
	var facts any
	if pol.Facts != nil {
		facts = pol.Facts(p.world(), chosen)
	}
	return p.interner.Selection(chosen, facts)
}

// forConnection chooses the policies on connections from sources to a service. It considers
// policies with the attachment where, except those that also have the attachment but.
func (p *Planner) forConnection(sources []mesh.Tags, service string, where, but policy.Attachment, into picks) {
	for i, pol := range p.policies {
		if pol.Attachment.Has(where) && !pol.Attachment.Has(but) {
			into[i] = p.choose(pol, selection.OnConnection(p.room[:0], p.state, pol, where, sources, service)...)
		}
	}
}

// forInbound chooses the policies on an inbound.
func (p *Planner) forInbound(c *class, tags mesh.Tags) picks {
	into := p.spread(c.proxy, aboutInbounds)
	for i, pol := range p.policies {
		if aboutInbounds(pol.Attachment) {
			into[i] = p.choose(pol, selection.OnInbound(p.room[:0], p.state, pol, tags)...)
		}
	}
	for i, d := range p.deciders {
		if d >= 0 && into[d] != nil {
			into[i] = nil
		}
	}
	return into
}

// forListener chooses the policies on a listener of a gateway.
func (p *Planner) forListener(r *reach, l *selection.GatewayListener) picks {
	into := p.blank(atPiece)
	for i, pol := range p.policies {
		if pol.Attachment.Has(policy.AllByListener) {
			into[i] = p.choose(pol, selection.OnListener(p.room[:0], p.state, pol, r.gateway.Chosen.Name, l.Tags)...)
		}
	}
	return into
}

// only keeps the selections of policies that edit a kind of cell. Other selections would
// become part of the key and cause needless rebuilds.
func (p *Planner) only(chosen picks, edits func(*policy.Policy) bool) *policy.Choices {
	kept := p.blank(inKey)
	for i, pol := range p.policies {
		if edits(pol) {
			kept[i] = chosen[i]
		}
	}
	return p.interner.Choices(kept)
}
