package egress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/passing"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
)

// These bound what the services outside contribute: the services of a mesh, and the sets of tags of
// each by which callers choose.
const (
	maxServices = 1024
	maxSets     = 64
)

// leaving is what a mesh contributes that is left through egresses.
type leaving struct {
	state    *view.Mesh
	exits    *sidecar.Exits
	services map[string]*sidecar.Exit
	failures []plan.Failure
}

// leave brings what meshes contribute up to date, and reports whether anything may differ.
func (p *Planner) leave(z *view.Zone) (changed bool) {
	seen := map[string]bool{}
	for name, m := range z.Meshes() {
		if !m.LeavesByEgress() {
			continue
		}
		seen[name] = true
		l := p.meshes[name]
		if l != nil && l.state == m {
			continue
		}
		if l == nil {
			l = &leaving{exits: sidecar.NewExits(p.policies, m)}
			p.meshes[name] = l
		} else {
			l.exits.Update(m)
		}
		l.state = m
		l.build()
		changed = true
	}
	for name := range p.meshes {
		if !seen[name] {
			delete(p.meshes, name)
			changed = true
		}
	}
	return changed
}

// build asks for everything again. What is made of the same is the same.
func (l *leaving) build() {
	l.services, l.failures = map[string]*sidecar.Exit{}, nil
	located := maps.Collect(l.state.LocatedBy(mesh.ExternalServices))
	names := slices.Sorted(maps.Keys(located))
	if more := len(names) - maxServices; more > 0 {
		names = names[:maxServices]
		l.failures = append(l.failures, plan.Failure{Cell: "mesh " + l.state.Name(), Err: fmt.Errorf("%d services outside the mesh are too many: callers cannot reach them", more)})
	}
	for _, name := range names {
		d := located[name]
		sets, left := passing.Subsets(d.Members(), maxSets)
		if left > 0 {
			l.failures = append(l.failures, plan.Failure{
				Cell: "service " + l.state.Name() + ":" + name, Err: fmt.Errorf("%d sets of tags are too many: callers cannot choose endpoints by them", left),
			})
		}
		l.services[name] = l.exits.Service(d, sets)
	}
	l.exits.Swept()
}

// gather gives the planner of what is passed on what all meshes contribute. A mesh without roots
// contributes nothing: the listener would wait for them, and with it all other meshes.
func (p *Planner) gather() {
	b, taken := passing.Beside{}, map[string]bool{}
	p.failures, p.owners = nil, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.meshes)) {
		l := p.meshes[name]
		p.failures = append(p.failures, l.failures...)
		roots := l.exits.Roots()
		if roots == nil || len(l.services) == 0 {
			continue
		}
		b.Secrets = append(b.Secrets, roots)
		if b.Allowed == nil {
			b.Allowed = map[string]string{}
		}
		b.Allowed[mesh.SecretCA(name)], b.Allowed[mesh.SecretIdentity(name)] = "", l.exits.Generation()
		for _, service := range slices.Sorted(maps.Keys(l.services)) {
			p.add(&b, taken, name, l.services[service])
		}
	}
	slices.SortStableFunc(p.failures, func(a, b plan.Failure) int { return cmp.Compare(a.Cell, b.Cell) })
	p.passing.Put(b)
}

// add adds what a service contributes. Server names are the same in upper and lower case, so of
// tags that differ in nothing else one set wins.
func (p *Planner) add(b *passing.Beside, taken map[string]bool, meshName string, x *sidecar.Exit) {
	p.failures = append(p.failures, x.Failures...)
	for _, c := range x.Chains {
		sni := c.GetFilterChainMatch().GetServerNames()[0]
		if key := strings.ToLower(sni); !taken[key] {
			taken[key] = true
			b.Chains, b.Names = append(b.Chains, c), append(b.Names, sni)
			continue
		}
		p.failures = append(p.failures, plan.Failure{Cell: "mesh " + meshName, Err: fmt.Errorf("%q is the same server name as another one, which callers reach instead", sni)})
	}
	b.Clusters, b.Routes = append(b.Clusters, x.Clusters...), append(b.Routes, x.Routes...)
	for _, secret := range x.Confided {
		b.Allowed[secret] = ""
		if p.owners[secret] == "" {
			p.owners[secret] = meshName
		}
	}
}
