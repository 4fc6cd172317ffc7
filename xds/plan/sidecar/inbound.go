package sidecar

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// inbound is one port of a class that its workloads serve.
type inbound struct {
	shape *inboundShape
	// chains is nil if they could never be made.
	chains *chains
	part   part
}

// buildInbound makes what the replicas of an inbound share. What cannot be made
// stays as it last was; an inbound that never could has no listener, so that
// nothing passes it unchecked.
func (p *Planner) buildInbound(c *class, in *inbound) {
	old, s := c.formerly(in), in.shape
	chosen := p.forInbound(s.Tags)
	k := inboundKey{
		mesh: p.facts.mesh, tags: s.Tags.String(), workloadPort: s.WorkloadPort, security: p.facts.security,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.Inbound != nil }),
	}
	in.part = part{failures: p.problems(chosen, s)}
	if mesh.IsHTTP(s.Tags.Protocol()) {
		k.routes = c.inboundTable(s)
		rk := inboundRoutesKey{
			mesh: p.facts.mesh, name: k.routes, tags: k.tags, workloadPort: s.WorkloadPort, mutualTLS: p.facts.security != plain,
			selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.InboundRoutes != nil }),
		}
		r, err := of(p.cells.inboundRoutes, p.round, rk, p.inboundRoutes)
		in.part.keep(&in.part.routes, old.part.routes, rk.name, r, err)
	}
	var err error
	if in.chains, err = of(p.cells.chains, p.round, k, p.chains); err != nil {
		in.chains = old.chains
		in.part.failures = append(in.part.failures, plan.Failure{
			Cell: "inbound " + localCluster(s.WorkloadPort), Err: fmt.Errorf("build the chains: %w", err), Kept: old.chains != nil,
		})
	}
	if s.WorkloadAddress == "" {
		return // a transparent proxy's workload is at the proxy's own address
	}
	lk := localKey{address: s.WorkloadAddress, port: s.WorkloadPort, protocol: s.Tags.Protocol()}
	cl, err := of(p.cells.locals, p.round, lk, local)
	in.part.keep(&in.part.clusters, old.part.clusters, localCluster(lk.port), cl, err)
}

// problems lists what of the chosen policies cannot take effect on an inbound.
func (p *Planner) problems(chosen selections, s *inboundShape) (out []plan.Failure) {
	for i, pol := range p.policies {
		if chosen[i] == nil {
			continue
		}
		cell := pol.Kind.Document.Type + " " + chosen[i].Policies[0].Name + " on " + localCluster(s.WorkloadPort)
		if pol.HTTPOnly && !mesh.IsHTTP(s.Tags.Protocol()) {
			out = append(out, plan.Failure{Cell: cell, Err: fmt.Errorf("not applied: the inbound speaks %s", s.Tags.Protocol())})
		} else if f, ok := chosen[i].Facts.(policy.Problematic); ok && f.Problem() != "" {
			out = append(out, plan.Failure{Cell: cell, Err: errors.New(f.Problem())})
		}
	}
	return out
}

// formerly is an inbound as it was built last; empty the first time.
func (c *class) formerly(in *inbound) inbound {
	if was := c.was[in.shape]; was != nil {
		return *was
	}
	return inbound{}
}

// inboundTable names the route table of an inbound after its service; where a
// class serves it on several ports, after the port too.
func (c *class) inboundTable(s *inboundShape) string {
	name := "inbound:" + s.Tags.Service()
	n := 0
	for i := range c.shape.Inbounds {
		if c.shape.Inbounds[i].Tags.Service() == s.Tags.Service() {
			n++
		}
	}
	if n > 1 {
		name += ":" + strconv.FormatUint(uint64(s.Port), 10)
	}
	return name
}
