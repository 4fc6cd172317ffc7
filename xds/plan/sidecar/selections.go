package sidecar

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxPolicies bounds the kinds of policies, so that what they chose can be part
// of a key.
const maxPolicies = 16

// selections holds what each policy chose for one cell, by the place of the
// policy in the list; nil where nothing was chosen or the policy does not edit
// cells of this kind.
type selections [maxPolicies]*policy.Selection

type (
	edits     struct{ *policy.Policy }
	selection = policy.Selection
)

func (e *edits) cluster(d *draft.Cluster, s *selection) error {
	if e.Cluster == nil || s == nil {
		return nil
	}
	return e.Cluster(d, s)
}

func (e *edits) outbound(d *draft.Outbound, s *selection) error {
	if e.Outbound == nil || s == nil {
		return nil
	}
	return e.Outbound(d, s)
}

func (e *edits) outboundRoutes(d *draft.Routes, s *selection) error {
	if e.OutboundRoutes == nil || s == nil {
		return nil
	}
	return e.OutboundRoutes(d, s)
}

// inbound edits run without a selection too: what no policy permits is for the
// policy to say.
func (e *edits) inbound(d *draft.Inbound, s *selection) error {
	if e.Inbound == nil || (s == nil && e.Attachment != policy.ByInbound) {
		return nil
	}
	return e.Inbound(d, s)
}

func (e *edits) inboundRoutes(d *draft.Routes, s *selection) error {
	if e.InboundRoutes == nil || (s == nil && e.Attachment != policy.ByInbound) {
		return nil
	}
	return e.InboundRoutes(d, s)
}

// edit gives every policy its turn, phase by phase. p.policies is ordered so.
func (p *Planner) edit(chosen selections, turn func(*edits, *selection) error) error {
	for i, pol := range p.policies {
		if err := turn(&edits{pol}, chosen[i]); err != nil {
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
		facts = pol.Facts(p.outside, chosen)
	}
	return p.interner.Selection(chosen, facts)
}

// forConnection chooses the policies on connections from a class to a service.
// where says which attachment is asked for.
func (p *Planner) forConnection(c *class, service string, where policy.Attachment, into *selections) {
	for i, pol := range p.policies {
		if pol.Attachment == where {
			into[i] = p.choose(pol, policy.Outbound(p.state, pol, c.sources, service))
		}
	}
}

// forInbound chooses the policies on an inbound.
func (p *Planner) forInbound(tags mesh.Tags) (chosen selections) {
	for i, pol := range p.policies {
		switch pol.Attachment {
		case policy.ByInbound:
			chosen[i] = p.choose(pol, policy.Inbound(p.state, pol, tags))
		case policy.AllByInbound:
			chosen[i] = p.choose(pol, policy.AllInbound(p.state, pol, tags)...)
		case policy.ByOutbound, policy.ByDestination, policy.ByProxy:
		}
	}
	return chosen
}

// only keeps the selections of policies that edit a kind of cell, so that others
// do not make such a cell anew.
func (p *Planner) only(chosen selections, edits func(*policy.Policy) bool) selections {
	for i, pol := range p.policies {
		if !edits(pol) {
			chosen[i] = nil
		}
	}
	return chosen
}
