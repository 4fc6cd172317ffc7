package sidecar

import (
	"iter"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// Update takes a newer state and the keys that changed since the last one. If all is set, any
// key may have changed.
func (p *Planner) Update(state *view.Mesh, keys []model.Key, all bool) {
	before := p.state
	p.state = state
	if all {
		p.everything()
		return
	}
	if !before.SameNames(state) {
		p.renamed()
	}
	elsewhere := false
	for _, key := range keys {
		switch key.Kind {
		case mesh.Dataplanes.Name:
			p.dataplane(before, key.Name)
		case mesh.MeshGateways.Name, mesh.MeshGatewayRoutes.Name:
			p.gatewayKind(before, key)
		case mesh.Meshes.Name:
			if f := meshSettingsOf(state); f != p.facts {
				p.everything()
				return
			}
			p.relearn()
		case mesh.Trusts.Name:
			if f := meshSettingsOf(state); f != p.facts {
				p.everything()
				return
			}
			p.trust()
			p.allMembers()
		case mesh.ZoneEgresses.Name:
			if f := meshSettingsOf(state); f != p.facts {
				p.everything()
				return
			}
		case mesh.ZoneIngresses.Name, mesh.Zones.Name:
			p.elsewhere(before, key)
		case mesh.Crossings.Name:
			p.crossing(before, key)
		default:
			p.located(before, key)
			elsewhere = p.policy(before, key) || p.proxylessKind(key.Kind) || elsewhere
		}
	}
	if elsewhere && p.survey() {
		p.placeAll()
	}
}

// placeAll puts every class into its current reach.
func (p *Planner) placeAll() {
	for _, c := range p.classes {
		p.place(c)
	}
}

// everything marks all reaches, classes and proxies.
func (p *Planner) everything() {
	p.facts = meshSettingsOf(p.state)
	p.trust()
	p.survey()
	for name, x := range p.proxies {
		if d, ok := p.state.Dataplane(name); ok {
			p.classify(x, d)
		}
	}
	p.placeAll()
	for _, r := range p.reaches {
		r.relist = true
		p.touchAll(r)
	}
	for _, c := range p.classes {
		c.staleIn = true
		p.mark(c)
	}
	p.allMembers()
}

func (p *Planner) allMembers() {
	for _, x := range p.proxies {
		p.loose[x] = struct{}{}
	}
}

func (p *Planner) mark(c *class) { p.dirty[c] = struct{}{} }

// dataplane takes a changed dataplane. It updates the shape of its proxy, if that is connected,
// and marks the outbounds to the services that the dataplane serves or served.
func (p *Planner) dataplane(before *view.Mesh, name string) {
	old, _ := before.Dataplane(name)
	now, exists := p.state.Dataplane(name)
	if x := p.proxies[name]; x != nil && exists {
		p.classify(x, now)
	}
	for service := range servicesOf(old, now) {
		was, is := before.Service(service), p.state.Service(service)
		if was == is {
			continue
		}
		p.service(service)
		p.population(before, service)
	}
}

// elsewhere takes a changed zone, or ingress of another zone. It marks the outbounds to the
// services that are or were there.
func (p *Planner) elsewhere(before *view.Mesh, key model.Key) {
	for _, m := range [...]*view.Mesh{before, p.state} {
		for service := range m.Elsewhere(key) {
			if before.Service(service) != p.state.Service(service) {
				p.service(service)
				p.population(before, service)
			}
		}
	}
}

// servicesOf yields the services of dataplanes. It may yield a service more than once.
func servicesOf(ds ...*view.Dataplane) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range ds {
			if d == nil || d.Spec.Networking == nil {
				continue
			}
			for i := range d.Spec.Networking.Inbound {
				if !yield(d.Spec.Networking.Inbound[i].Tags.Service()) {
					return
				}
			}
		}
	}
}

// service marks the outbounds that reach a service.
func (p *Planner) service(name string) {
	for o := range p.byService[name] {
		p.touch(o)
	}
}

// population marks the reaches that include every service, if a service that they may reach
// came or went.
func (p *Planner) population(before *view.Mesh, service string) {
	if before.Has(service) == p.state.Has(service) {
		return
	}
	for _, r := range p.reaches {
		if r.shape.Everything && selection.Reachable(r.shape.Reachable, service) || r.shape.Direct.all() {
			r.relist = true
			p.moved[r] = struct{}{}
		}
	}
}

// policy takes a changed policy, and marks what it was and is chosen for. It reports whether
// the policy may have begun or ceased to distinguish sources of connections. A permission may
// always have.
func (p *Planner) policy(before *view.Mesh, key model.Key) (elsewhere bool) {
	for _, pol := range p.policies {
		if pol.Kind.Name != key.Kind {
			continue
		}
		was, is := find(before, pol, key.Name), find(p.state, pol, key.Name)
		for _, version := range []*view.Policy{was, is} {
			if version != nil {
				p.chosen(pol, version)
			}
		}
		if permits(pol) {
			p.permission(was, is)
			elsewhere = true
		}
		elsewhere = elsewhere || aboutConnections(pol) && resourced(was, is)
	}
	return elsewhere
}

func find(m *view.Mesh, pol *policy.Policy, name string) *view.Policy {
	for x := range m.Policies(pol.Kind) {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// chosen marks what a policy may be chosen for. It ignores the sources, because considering
// them would save little and the selection considers them anyway.
func (p *Planner) chosen(pol *policy.Policy, x *view.Policy) {
	if aboutConnections(pol) {
		p.chosenByService(x.Destinations)
	}
	if pol.Attachment.Has(policy.AllByListener) {
		for _, r := range p.reaches {
			if r.guardedBy(x) {
				p.moved[r] = struct{}{}
			}
		}
	}
	for _, c := range p.classes {
		if pol.Attachment.Has(policy.AtService) {
			p.mark(c)
		}
		if aboutInbounds(pol.Attachment) && c.serves(x.Selectors()) {
			c.staleIn = true
			p.mark(c)
		}
	}
	if pol.Attachment.Has(policy.AtProxy) {
		p.placeAll()
	}
	if pol.Attachment.Has(policy.AtService) {
		for _, r := range p.reaches {
			if r.shape.Gateway != nil {
				p.moved[r] = struct{}{}
			}
		}
	}
}

// guardedBy reports whether a policy may be for a listener of the gateway.
func (r *reach) guardedBy(x *view.Policy) bool {
	return r.gateway != nil && r.gateway.Chosen != nil && slices.ContainsFunc(x.Targets, func(s mesh.Tags) bool {
		return s[mesh.ListenerOf] == r.gateway.Chosen.Name
	})
}

// chosenByService marks the outbounds to the services that some destinations select.
func (p *Planner) chosenByService(destinations []mesh.Tags) {
	for _, d := range destinations {
		if s := d.Service(); s != "" && s != mesh.AnyValue {
			p.service(s)
			continue
		}
		for _, r := range p.reaches {
			p.touchAll(r)
		}
	}
}

// serves reports whether one of some selectors matches an inbound of the class.
func (c *class) serves(selectors []mesh.Tags) bool {
	for i := range c.shape.Inbounds {
		for _, s := range selectors {
			if mesh.Matches(s, c.shape.Inbounds[i].Tags) {
				return true
			}
		}
	}
	return false
}

// Secured says whether a proxy has an identity and accepts mutual TLS. In a permissive mesh,
// others call the proxy by mutual TLS only once it does.
func (p *Planner) Secured(name string, yes bool) {
	if p.secured[name] == yes {
		return
	}
	if yes {
		p.secured[name] = true
	} else {
		delete(p.secured, name)
	}
	if p.facts.security != permissive {
		return
	}
	if d, ok := p.state.Dataplane(name); ok {
		for s := range servicesOf(d) {
			p.service(s)
		}
	}
}

// Outside says that the answers to what policies ask about things beyond the mesh may have
// changed.
func (p *Planner) Outside() {
	p.relearn()
}
