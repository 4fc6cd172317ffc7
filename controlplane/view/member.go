package view

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Member is a control plane as its own resources see it: what they name, by id or by name,
// is in there and nowhere else. In a group nobody can take the place of what somebody
// else's resources name. It is a value, made by [Gateway.Of].
type Member struct {
	g     *Gateway
	scope string
}

// Of returns what the resources of a scope see: of one member, or of the control plane of
// the view itself.
func (g *Gateway) Of(scope string) Member { return Member{g, scope} }

// Service returns a service by id.
func (m Member) Service(id string) (*Service, bool) { return own(m.g.services, m.scope, id) }

// Route returns a route by id.
func (m Member) Route(id string) (*Route, bool) { return own(m.g.routes, m.scope, id) }

// Certificate returns a certificate by id.
func (m Member) Certificate(id string) (*Certificate, bool) {
	return own(m.g.certificates, m.scope, id)
}

// CACertificate returns the certificate of an authority by id.
func (m Member) CACertificate(id string) (*CACertificate, bool) {
	return own(m.g.authorities, m.scope, id)
}

// Attached returns the enabled plugin instance at a target.
func (m Member) Attached(t gateway.Attachment) (*Plugin, bool) {
	p, ok := m.g.targets.get(targetKey(m.scope, t))
	return p, ok && p.Spec.Enabled
}

// Bound returns the instances at a target that are bound to consumers, enabled
// or not; nil if there are none.
func (m Member) Bound(t gateway.Attachment) *Bound {
	b, _ := m.g.bound.get(targetKey(m.scope, t))
	return b
}

// Anonymous resolves a plugin's config.anonymous: by id first, then by
// username. It is nil if nobody answers to the value, or no plugin names it, or if another
// member of the group had first what upstreams would be told.
func (m Member) Anonymous(configured string) *Consumer {
	c, _ := m.g.anonymous.get(within(m.scope, configured))
	if c == nil {
		return nil
	}
	if _, left := m.g.clashes.get(textOf(model.Key{Kind: gateway.Consumers.Name, Scope: c.Scope, Name: c.ID})); left {
		return nil
	}
	return c
}

// Upstream returns the upstream that a host of a service names, in any case.
func (m Member) Upstream(host string) (*Upstream, bool) {
	return m.g.named.get(within(m.scope, strings.ToLower(host)))
}

// Targets returns the targets of an upstream; nil if it has none.
func (m Member) Targets(upstream string) *Targets {
	t, _ := m.g.pools.get(within(m.scope, upstream))
	return t
}

// own returns an entry by id, if it is of a scope.
func own[V held](t table[V], scope, id string) (V, bool) {
	v, ok := t.get(id)
	if !ok || v.home() != scope {
		var none V
		return none, false
	}
	return v, true
}
