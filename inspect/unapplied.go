package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// Problems tells why proxies do not have the configuration that they should have. It knows of
// proxies that are connected to this control plane; what the mesh alone tells is found for every
// dataplane.
type Problems interface {
	// Of returns one sentence for each problem of a dataplane.
	Of(mesh, dataplane string) []string
	// About returns those of them that are about a policy, or may be: what an Envoy refuses does
	// not say by which policy it is.
	About(mesh, dataplane string, pol *policy.Policy, name string) []string
}

// unapplied says which of the policies that are chosen for a place, or which of their fields, have
// no effect there, as far as the mesh tells. name bounds it to one policy, unless it is empty. What
// a field does may depend on the destination: that is told by the planner.
func unapplied(m *view.Mesh, at *selection.Place, match selection.Match, name string) (out []string) {
	pol := match.Policy
	for _, c := range match.Chosen.Policies {
		if name != "" && c.Name != name {
			continue
		}
		text := ""
		switch at.Sort {
		case selection.PlaceInbound:
			text = pol.IdleAt(at.Protocol)
		case selection.PlaceListener:
			text = pol.IdleOn(at.Protocol)
		}
		if text == "" {
			text = problem(m, pol, c)
		}
		if text != "" {
			out = append(out, pol.Named(c.Name)+": "+text)
		}
		for _, field := range pol.IdleFields(&policy.Selection{Policies: []*view.Policy{c}}, policy.Setting{}) {
			out = append(out, pol.Named(c.Name)+": "+field)
		}
	}
	return out
}

// beyond notes that a policy asks about something outside its mesh.
type beyond struct{ asked bool }

// Gateway implements [policy.Outside].
func (b *beyond) Gateway(string) (*view.Gateway, error) {
	b.asked = true
	return nil, policy.ErrReading
}

// problem says what is wrong with the demand of a policy. What depends on more than the mesh is
// not found here: the planner reports it.
func problem(m *view.Mesh, pol *policy.Policy, c *view.Policy) string {
	if pol.Facts == nil {
		return ""
	}
	outside := &beyond{}
	w := policy.World{Outside: outside}
	if spec := m.Spec(); spec != nil {
		w.Mesh = spec.Spec
	}
	text := policy.Problem(pol.Facts(w, []*view.Policy{c}))
	if outside.asked {
		return ""
	}
	return text
}

const connections = policy.AtOutbound | policy.AtDestination | policy.AtService

// leftOut returns the services that a policy names as destinations, for which it would be chosen
// at a dataplane, and which the dataplane does not reach because its reachableServices lack them.
// A policy for any service names none. Services to which a route leads are reached.
func leftOut(m *view.Mesh, d *view.Dataplane, pol *policy.Policy, c *view.Policy, reached map[string]bool) (out []string) {
	n := d.Spec.Networking
	all, reachable := selection.Everything(n)
	if !all || len(reachable) == 0 || !pol.Attachment.Has(connections) {
		return nil
	}
	sources := selection.Sources(n)
	for _, tags := range c.Destinations {
		s := tags.Service()
		if s == "" || reached[s] || slices.Contains(out, s) || selection.Reachable(reachable, s) || !m.Has(s) {
			continue
		}
		if slices.Contains(selection.OnConnection(nil, m, pol, connections, sources, s), c) {
			out = append(out, s)
		}
	}
	return out
}

// reached are the services of the places of a dataplane.
func reached(places []selection.Place) map[string]bool {
	out := map[string]bool{}
	for i := range places {
		if places[i].Sort != selection.PlaceInbound {
			out[places[i].Service] = true
		}
	}
	return out
}

// bounded reports whether a dataplane reaches only the services that it names.
func bounded(d *view.Dataplane) bool {
	if d.Spec.Networking == nil {
		return false
	}
	all, reachable := selection.Everything(d.Spec.Networking)
	return all && len(reachable) > 0
}

// leftOutOf says which policies would be chosen for services that a dataplane leaves out.
func (p *Policies) leftOutOf(m *view.Mesh, d *view.Dataplane, places []selection.Place) (out []string) {
	if !bounded(d) {
		return nil
	}
	at, by := reached(places), map[string][]string{}
	for _, pol := range p.Policies {
		for c := range m.Policies(pol.Kind) {
			for _, s := range leftOut(m, d, pol, c, at) {
				by[s] = append(by[s], pol.Named(c.Name))
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(by)) {
		if len(out) == maxWarned {
			break
		}
		out = append(out, fmt.Sprintf("service %s is left out by reachableServices of the dataplane, so what would be chosen for it is not in force: %s", s, strings.Join(by[s], ", ")))
	}
	return out
}

// maxNamed is how many dataplanes one sentence names.
const maxNamed = 5

// exclusion collects which dataplanes leave services out for which one policy would be chosen.
type exclusion map[string][]string

func (e exclusion) sentences() (out []string) {
	for _, s := range slices.Sorted(maps.Keys(e)) {
		names := e[s]
		who := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, fmt.Sprintf("service %s is left out by reachableServices of dataplanes for which the policy would be chosen, and it is not in force there: %s", s, who))
	}
	return out
}
