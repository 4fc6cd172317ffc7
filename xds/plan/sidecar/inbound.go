package sidecar

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// inbound is one port that the workloads of a class serve.
type inbound struct {
	shape *inboundShape
	// chains is nil if the inbound has no listener.
	chains *chains
	part   part
	// awaits is what the inbound waits for; see Planner.await.
	awaits string
	// missing says that nothing exists yet to use while something is being read.
	missing bool
	// guarded says that a policy keeps callers out, who must not reach the workload past it.
	guarded bool
}

// buildInbound makes what the replicas of an inbound share. If the rules of the inbound cannot
// be built, it is closed.
func (p *Planner) buildInbound(c *class, in *inbound) {
	in.awaits, in.missing = "", false
	if err := guard(func() { p.makeInbound(c, in) }); err != nil {
		in.part = part{learned: unknown}
		in.close(err)
	}
}

func (p *Planner) makeInbound(c *class, in *inbound) {
	old, s := c.formerly(in), in.shape
	chosen := p.forInbound(c, s.Tags)
	// Nobody comes past the listener of metrics: the agent has no port.
	in.guarded = s.Scraping == nil && p.keepsOut(chosen, s.Tags.Protocol())
	protection := p.securityOf(s)
	if p.await(c, in, chosen) {
		return
	}
	k := inboundKey{
		mesh: p.facts.mesh, tags: s.Tags.String(), cluster: s.Cluster, security: protection, bare: c.shape.Bare, scraped: s.Scraping != nil,
		life: p.facts.life, withdrawn: p.facts.withdrawn,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.Inbound != nil }),
	}
	in.part = part{failures: p.problems(c, chosen, s), learned: p.learnAll(nil, chosen)}
	p.contributed(chosen, &in.part)
	in.tell()
	// The workload of a transparent proxy is at the proxy's own address.
	if s.WorkloadAddress != "" {
		lk := localKey{name: s.Cluster, address: s.WorkloadAddress, port: s.WorkloadPort, protocol: s.Tags.Protocol()}
		cl, err := of(p.cells.locals, p.round, lk, local)
		if !in.part.keep(&in.part.clusters, old.part.clusters, lk.name, cl, err) {
			return
		}
	}
	if mesh.IsHTTP(s.Tags.Protocol()) {
		k.routes = s.Table
		rk := inboundRoutesKey{
			mesh: p.facts.mesh, name: k.routes, tags: k.tags, cluster: s.Cluster, mutualTLS: protection != plain, bare: c.shape.Bare, leaving: s.Leaving, asked: s.Asked,
			selections: p.only(chosen, (*policy.Policy).EditsInboundRoutes),
		}
		if s.Scraping != nil {
			rk.scraped = s.Scraping.Path
		}
		r, err := of(p.cells.inboundRoutes, p.round, rk, p.inboundRoutes)
		if err != nil {
			in.part.failures = append(in.part.failures, plan.Failure{Cell: rk.name, Err: fmt.Errorf("every request is refused: build %s: %w", rk.name, err)})
			if r, err = closedRoutes(rk); err != nil {
				in.close(err) // a listener would wait for its routes, and all others with it
				return
			}
		}
		in.part.routes = append(in.part.routes, r)
	}
	var err error
	if in.chains, err = of(p.cells.chains, p.round, k, p.chains); err != nil {
		in.close(fmt.Errorf("build the chains: %w", err))
	}
}

// problems lists the chosen policies that cannot take effect on an inbound. The problem of a
// policy on the whole proxy is not one of each inbound.
func (p *Planner) problems(c *class, chosen picks, s *inboundShape) (out []plan.Failure) {
	for i, pol := range p.policies {
		if chosen[i] == nil {
			continue
		}
		text := pol.IdleAt(s.Tags.Protocol())
		switch {
		case text != "":
		case pol.NeedsFilter && c.shape.Bare:
			text = "the proxy lacks the filter: every request is refused"
		case chosen[i] != c.proxy.At(i):
			text = policy.Problem(chosen[i].Facts)
		}
		if text != "" {
			out = append(out, plan.Failure{
				Cell: pol.Named(chosen[i].Policies[0].Name) + " on " + s.Cluster, Err: errors.New(text), By: pol.Names(chosen[i]),
			})
		}
	}
	return out
}

// formerly returns an inbound as it was last built; it is empty the first time.
func (c *class) formerly(in *inbound) inbound {
	if was := c.was[in.shape]; was != nil {
		return *was
	}
	return inbound{}
}
