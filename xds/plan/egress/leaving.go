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
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// A listener serves the services outside of all meshes, and a mesh must not take the room of others.
// These are the limits of chains, each of which ends TLS, and of the bytes of all that is made for
// them. What else is passed on needs less than half of what an agent takes.
var (
	chains = passing.Room{OfMesh: 2048, OfAll: 8192}
	bytes  = passing.Room{OfMesh: 8 << 20, OfAll: 32 << 20}
)

// maxSets bounds the sets of tags of a service by which callers choose.
const maxSets = 64

// room is what a mesh may have: services, and bytes, and how many sets of tags and bytes each service.
type room struct{ services, sets, bytes, each int }

func roomOf(meshes, services int) (r room) {
	r.services, r.sets = chains.Shares(meshes, services)
	r.sets = min(r.sets, maxSets)
	r.bytes, r.each = bytes.Shares(meshes, services)
	return r
}

// leaving is what a mesh contributes that is left through egresses.
type leaving struct {
	state *view.Mesh
	// exits make the services; nil where they were made by another planner, of which this is a copy.
	exits    *sidecar.Exits
	services map[string]*sidecar.Exit
	// roots are what the mesh trusts, nil if that is nothing, and generation is that of the identity
	// of egresses.
	roots      *resource.Resource
	generation string
	// located are the services that the mesh has, and room is what they may take.
	located  map[string]*view.Located
	room     room
	failures []plan.Failure
	// due is set when the state is newer than the services.
	due bool
}

// leave brings what meshes contribute up to date, and reports whether anything may differ.
func (p *Planner) leave(z *view.Zone) (changed bool) {
	seen, serving := map[string]bool{}, 0
	for name, m := range z.Meshes() {
		if !m.LeavesByEgress() {
			continue
		}
		seen[name] = true
		l := p.meshes[name]
		if l == nil {
			l = &leaving{}
			p.meshes[name] = l
		}
		if l.state != m {
			l.state, l.due = m, true
			l.located = maps.Collect(m.LocatedBy(mesh.ExternalServices))
		}
		if len(l.located) > 0 {
			serving++
		}
	}
	for name, l := range p.meshes {
		if !seen[name] {
			delete(p.meshes, name)
			changed = true
			continue
		}
		if r := roomOf(serving, len(l.located)); l.due || l.room != r {
			l.room = r
			l.renew(p.policies)
			changed = true
		}
	}
	return changed
}

// renew brings what a mesh contributes up to date. A mesh for which that panics keeps what it
// contributed, is named in the failures, and is tried again with the next change: other meshes, which
// the same egresses serve, must not stand still because of it.
func (l *leaving) renew(policies []*policy.Policy) {
	next, err := plan.Protect(l.state.Name(), func(string) (*leaving, error) {
		next := *l
		next.build(policies)
		return &next, nil
	})
	if err != nil {
		l.exits, l.due = nil, true // they may have stopped half-way
		l.failures = []plan.Failure{{Cell: "mesh " + l.state.Name(), Err: err, Kept: l.roots != nil}}
		return
	}
	*l = *next
	l.due = false
}

// build asks for everything again. What is made of the same is the same. Services that have no room
// are left out, so that nobody reaches them. What is made for nothing is bounded, too.
func (l *leaving) build(policies []*policy.Policy) {
	if l.exits == nil {
		l.exits = sidecar.NewExits(policies, l.state)
	} else {
		l.exits.Update(l.state)
	}
	l.roots, l.generation = l.exits.Roots(), l.exits.Generation()
	l.services, l.failures = map[string]*sidecar.Exit{}, nil
	kept, made, large := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(l.located)) {
		if len(l.services) >= l.room.services {
			break
		}
		if made >= 2*l.room.bytes {
			large = len(l.located) - len(l.services)
			break
		}
		d := l.located[name]
		sets, left := passing.Subsets(d.Members(), l.room.sets)
		x := l.exits.Service(d, sets, l.room.each)
		made += x.Made
		if kept+x.Bytes > l.room.bytes {
			large++
			continue
		}
		kept += x.Bytes
		l.services[name] = x
		if left > 0 {
			l.lacks("service "+l.state.Name()+":"+name, "%d sets of tags are too many: callers cannot choose endpoints by them", left)
		}
		if x.Left > 0 {
			l.lacks("service "+l.state.Name()+":"+name, "%d sets of tags need more than %d bytes of configuration: callers cannot choose endpoints by them", x.Left, l.room.each)
		}
		x.Left += left
	}
	if large > 0 {
		l.lacks("mesh "+l.state.Name(), "%d services outside the mesh need more than %d bytes of configuration: callers cannot reach them", large, l.room.bytes)
	}
	if many := len(l.located) - len(l.services) - large; many > 0 {
		l.lacks("mesh "+l.state.Name(), "%d services outside the mesh are too many: callers cannot reach them", many)
	}
	l.exits.Swept()
}

func (l *leaving) lacks(cell, format string, args ...any) {
	l.failures = append(l.failures, plan.Failure{Cell: cell, Err: fmt.Errorf(format, args...)})
}

// gather gives the planner of what is passed on what all meshes contribute. A mesh without roots
// contributes nothing: the listener would wait for them, and with it all other meshes.
func (p *Planner) gather() {
	b, taken := passing.Beside{Barred: map[[2]string]bool{}}, map[string]bool{}
	p.failures, p.owners = nil, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.meshes)) {
		l := p.meshes[name]
		p.failures = append(p.failures, l.failures...)
		if l.roots == nil || len(l.located) == 0 {
			continue
		}
		for service := range l.located {
			if x := l.services[service]; x == nil || x.Left > 0 {
				b.Barred[[2]string{name, service}] = true
			}
		}
		if len(l.services) == 0 {
			continue
		}
		b.Secrets = append(b.Secrets, l.roots)
		if b.Allowed == nil {
			b.Allowed = map[string]string{}
		}
		b.Allowed[mesh.SecretCA(name)], b.Allowed[mesh.SecretIdentity(name)] = "", l.generation
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
