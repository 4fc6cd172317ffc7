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
				allow(secrets, g, s.Spec.Certificate, true)
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

	in := tableInput{cells: p.routes(g, to), oauth: oauth, forwardDots: p.params.ForwardDotSegments, copies: p.copies}
	keep(plan.Cell(p.cells, "table "+TableName, in.digest(), func(string) (*resource.Resource, error) { return table(in) }))
	return Result{Set: resource.NewSet(out, secrets), Failures: p.cells.End()}
}

func (p *Planner) endpoints(certificates string, log accesslog.Settings) []endpoint {
	var out []endpoint
	if p.params.HTTPPort != 0 {
		out = append(out, endpoint{scheme: "http", address: p.params.Address, port: p.params.HTTPPort, trusted: p.params.Trusted, tracing: p.params.Tracing, log: log})
	}
	if p.params.HTTPSPort != 0 {
		out = append(out, endpoint{"https", p.params.Address, p.params.HTTPSPort, p.params.Trusted, certificates, p.params.Tracing, log})
	}
	return out
}

// clusters builds the clusters of the services that some route uses, with their
// assignments, and allows the client certificates that they name.
func (p *Planner) clusters(g *view.Gateway, secrets map[string]string) (out []*resource.Resource, to map[string]destination) {
	to = map[string]destination{}
	used := map[string]bool{}
	for r := range g.Routes() {
		used[r.Spec.Service] = true
	}
	for id := range used {
		s, ok := g.Service(id)
		if !ok || !s.Spec.Enabled {
			continue
		}
		k, targets := clusterKeyOf(g, s, p.params)
		if certificate, _, ok := ParseCertificate(k.tls.certificate); ok {
			allow(secrets, g, certificate, false)
		}
		// A cluster that trusts other servers, or none in particular, is not kept: its
		// routes answer 503.
		c, ok := plan.CellWhile(p.cells, "service "+id, k, protectedCluster, func(old protected) bool { return old.tls == k.tls })
		if !ok {
			continue
		}
		to[id] = destination{c.cluster.Name, c.byName}
		out = append(out, c.cluster)
		if !c.assigned {
			continue
		}
		if a, ok := plan.Cell(p.cells, "targets of service "+id, assignmentKey{c.cluster.Name, targets}, assignment); ok {
			out = append(out, a)
		}
	}
	return out, to
}

// routes builds the ways of all routes that are matched, ordered by id.
// Routes of disabled services are not; nor are routes with an attribute that
// cannot be matched, which are reported.
func (p *Planner) routes(g *view.Gateway, to map[string]destination) []*routeCell {
	var out []*routeCell
	for _, r := range slices.SortedFunc(g.Routes(), func(a, b *view.Route) int { return cmp.Compare(a.ID, b.ID) }) {
		cell := "route " + r.ID
		s, _ := g.Service(r.Spec.Service)
		if s != nil && !s.Spec.Enabled {
			continue
		}
		k := routeKey{
			route: r, service: s, to: to[r.Spec.Service], host: serviceAuthority(g, s),
			plugins: chain.Effective(g, r.ID, r.Spec.Service),
			http:    p.params.HTTPPort, https: p.params.HTTPSPort, oauth: p.params.OAuth.Host != "",
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
