package edge

import (
	"cmp"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Result is what the proxies of one class hold.
type Result struct {
	Set *resource.Set
	// Failures are resources and routes that are not as they should be.
	Failures []plan.Failure
}

// Planner plans the proxies of one control plane with equal parameters. It
// remembers cells between plans and is used by one goroutine.
type Planner struct {
	params Params
	cells  *plan.Cells
	copies int
}

// NewPlanner returns a planner without memory.
func NewPlanner(p Params) *Planner {
	return &Planner{params: p, cells: plan.NewCells(), copies: mostCopies}
}

// Copy returns a planner that remembers the same, with the last good versions of what cannot be
// made. Both can be used independently.
func (p *Planner) Copy() *Planner {
	return &Planner{params: p.params, cells: p.cells.Copy(), copies: p.copies}
}

// Plan makes the set for a state. Equal states yield equal bytes, whatever was
// planned before; what did not change is the same pointer as in the last plan.
// An exception is what failed: it stays as it last was.
func (p *Planner) Plan(g *view.Gateway) Result {
	p.cells.Begin()
	var out []*resource.Resource
	keep := func(r *resource.Resource, ok bool) {
		if ok {
			out = append(out, r)
		}
	}
	secrets := map[string]string{}
	log := p.params.Log
	if log.Enabled && log.Collector != "" {
		// Envoy refuses a listener that names a cluster which is not there.
		c, ok := plan.Cell(p.cells, "cluster "+accesslog.Cluster, logCollectorKey{log.Collector, p.params.RootsFile}, logCollector)
		keep(c, ok)
		if !ok {
			log.Collector = ""
		}
	}
	for _, e := range p.endpoints(shown(g), log) {
		keep(plan.Cell(p.cells, "listener "+e.name(), e, listener))
		if e.scheme == "https" {
			secrets[SecretServer] = ""
			for s := range g.SNIs() {
				allow(secrets, g.Of(s.Scope), s.Spec.Certificate, true)
			}
		}
	}
	oauth := p.params.OAuth.Host != ""
	if oauth {
		keep(plan.Cell(p.cells, "cluster oauth2", p.params.OAuth, oauthCluster))
		secrets[SecretIdentity], secrets[SecretCA] = "", ""
	}
	if p.params.Tracing.on() {
		keep(plan.Cell(p.cells, "cluster "+tracingCluster, p.params.Tracing.collector(p.params.RootsFile), collectorCluster))
	}
	clusters, to := p.clusters(g, secrets)
	out = append(out, clusters...)

	in := tableInput{cells: p.routes(g, to), oauth: oauth, filter: p.params.Filter, forwardDots: p.params.ForwardDotSegments, copies: p.copies}
	keep(plan.Cell(p.cells, "table "+string(in.filter), in.digest(), func(string) (*resource.Resource, error) { return table(in) }))
	return Result{Set: resource.NewSet(out, secrets), Failures: p.cells.End()}
}

func (p *Planner) endpoints(certificates string, log accesslog.Settings) []endpoint {
	var out []endpoint
	if p.params.HTTPPort != 0 {
		out = append(out, endpoint{scheme: "http", address: p.params.Address, port: p.params.HTTPPort, trusted: p.params.Trusted, filter: p.params.Filter, tracing: p.params.Tracing, log: log})
	}
	if p.params.HTTPSPort != 0 {
		out = append(out, endpoint{"https", p.params.Address, p.params.HTTPSPort, p.params.Trusted, certificates, p.params.Filter, p.params.Tracing, log})
	}
	return out
}

// clusters builds the clusters of the services that some route uses, with their
// assignments, and allows the client certificates that they name.
func (p *Planner) clusters(g *view.Gateway, secrets map[string]string) (out []*resource.Resource, to map[string]destination) {
	to = map[string]destination{}
	used := map[*view.Service]bool{}
	for r := range g.Routes() {
		if s, ok := g.Of(r.Scope).Service(r.Spec.Service); ok && s.Spec.Enabled {
			used[s] = true
		}
	}
	for s := range used {
		k, targets := clusterKeyOf(g, s, p.params)
		if certificate, _, ok := ParseCertificate(k.tls.certificate); ok {
			allow(secrets, g.Of(s.Scope), certificate, false)
		}
		// A cluster that trusts other servers, or none in particular, is not kept: its
		// routes answer 503.
		c, ok := plan.CellWhile(p.cells, cellOfMember(g, "service", s.Scope, s.ID), k, protectedCluster, func(old protected) bool { return old.tls == k.tls })
		if !ok {
			continue
		}
		to[s.ID] = destination{c.cluster.Name, c.byName}
		out = append(out, c.cluster)
		if !c.assigned {
			continue
		}
		if a, ok := plan.Cell(p.cells, cellOfMember(g, "targets of service", s.Scope, s.ID), assignmentKey{c.cluster.Name, targets}, assignment); ok {
			out = append(out, a)
		}
	}
	return out, to
}

// routes builds the ways of all routes that are matched, ordered by id.
// Routes of disabled services are not; nor are routes with an attribute that
// cannot be matched, which are reported. Those that a group leaves out refuse: their
// requests would go by other routes, which may demand less.
func (p *Planner) routes(g *view.Gateway, to map[string]destination) []*routeCell {
	var out []*routeCell
	all := slices.AppendSeq(slices.Collect(g.Routes()), g.Refused())
	slices.SortFunc(all, func(a, b *view.Route) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Scope, b.Scope)) })
	for _, r := range all {
		cell := cellOfMember(g, "route", r.Scope, r.ID)
		s, found := g.Of(r.Scope).Service(r.Spec.Service)
		if found && !s.Spec.Enabled {
			continue
		}
		k := routeKey{
			route: r, service: s, host: serviceAuthority(g, s),
			plugins: chain.Effective(g, r.Scope, r.ID, r.Spec.Service),
			http:    p.params.HTTPPort, https: p.params.HTTPSPort, oauth: p.params.OAuth.Host != "", filter: p.params.Filter,
		}
		if found {
			k.to, k.servicePlane = to[s.ID], g.Named(s.Scope)
		}
		c, ok := plan.Cell(p.cells, cell, k, buildRoute)
		if !ok {
			continue
		}
		if c.broken != nil {
			p.cells.Report(plan.Failure{Cell: cell, Err: c.broken})
		}
		out = append(out, c)
	}
	return out
}

// cellOfMember names a cell of a resource. What a cell keeps of one member is never shown
// for what another one has of the same id.
func cellOfMember(g *view.Gateway, what, scope, id string) string {
	if scope == g.Scope() {
		return what + " " + id
	}
	return what + " " + id + " of " + scope
}
