package egress

import (
	"net/netip"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/passing"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Planner plans egresses. One goroutine uses it.
type Planner struct {
	passing  *passing.Planner
	policies []*policy.Policy
	meshes   map[string]*leaving
	failures []plan.Failure
	owners   map[string]string
	// sick are the meshes that show an earlier state, because they cannot be read.
	sick []string
}

// New returns a planner of egresses that knows nothing. policies are those of meshes.
func New(policies []*policy.Policy) *Planner {
	return &Planner{
		passing:  passing.New(passing.Role{Serves: (*view.Mesh).ThroughEgress, Leads: elsewhere, ToIngresses: true}),
		policies: policies, meshes: map[string]*leaving{},
	}
}

// Copy returns a planner that remembers the same. Both can be used at the same time: they share only
// what never changes. Of a mesh that changes, the copy makes everything anew, which comes to the same.
func (p *Planner) Copy() *Planner {
	next := *p
	next.passing, next.meshes = p.passing.Copy(), make(map[string]*leaving, len(p.meshes))
	for name, l := range p.meshes {
		own := *l
		own.exits = nil
		next.meshes[name] = &own
	}
	return &next
}

// Update takes a state of the zone. It looks only at meshes and services that are not the same as
// before.
func (p *Planner) Update(z *view.Zone) {
	p.passing.Update(z)
	if p.leave(z) {
		p.gather()
	}
	p.sick = nil
	for name, err := range z.Sick() {
		if err != nil && name != "" { // of those without a name nothing is known, and they take no step
			p.sick = append(p.sick, name)
		}
	}
}

// Behind returns, in order, the meshes of which egresses may have something else than the newest state
// says: they could not be planned or read, and what egresses had of them stays, roots among it.
func (p *Planner) Behind() []string {
	out := slices.Clone(p.sick)
	for name, l := range p.meshes {
		if l.due {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Failures returns what is not as configured at any egress.
func (p *Planner) Failures() []plan.Failure { return slices.Concat(p.passing.Failures(), p.failures) }

// Set returns the set of an egress that listens on an address. It fails if it cannot listen there.
func (p *Planner) Set(address string, port uint32) (*resource.Set, error) {
	return p.passing.Set(address, port)
}

// Owner returns the mesh of which a secret is that egresses present to a service outside, empty if
// none is. Secrets of one name have one content.
func (p *Planner) Owner(secret string) string { return p.owners[secret] }

// elsewhere returns the endpoints of a service at the ingresses of other zones.
func elsewhere(s *view.MeshService, _ string, proxies map[netip.AddrPort]bool) (out []view.Endpoint, left int) {
	for i := range s.Endpoints {
		switch e := &s.Endpoints[i]; {
		case e.Ingress == "" || !e.Ready:
		case passing.Astray(e, proxies):
			left++
		default:
			out = append(out, *e)
		}
	}
	return out, left
}
