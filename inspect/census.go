package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// census is who is in a mesh, by what policies select them: replicas count once, so that
// policies are held against as many tag sets as there are services, and not proxies.
type census struct {
	// inbounds, sources and beyond are tag sets by their texts: of inbounds, of what proxies
	// stand for where they call, and of places that resources locate and callers reach.
	inbounds, sources, beyond map[string]mesh.Tags
	// counts says how many inbounds have a tag set.
	counts map[string]int
	// proxies are the values of each tag in the certificates of proxies.
	proxies map[string]map[string]map[string]bool
	// outbounds are services that outbounds name.
	outbounds map[string]bool
	// served are the services of inbounds, reachable these and those of beyond, and callers
	// those of sources, in order.
	served, reachable, callers []string
}

// take counts who is in a mesh, in one walk over its proxies.
func take(m *view.Mesh) *census {
	c := &census{
		inbounds: map[string]mesh.Tags{}, sources: map[string]mesh.Tags{}, beyond: map[string]mesh.Tags{}, counts: map[string]int{},
		proxies: map[string]map[string]map[string]bool{}, outbounds: map[string]bool{},
	}
	for d := range m.Dataplanes() {
		if d.Spec.Networking != nil {
			c.add(d.Spec.Networking)
		}
	}
	for _, l := range m.Beyond() {
		for _, e := range l.Members() {
			c.beyond[e.Tags.String()] = e.Tags
		}
	}
	c.served, c.reachable, c.callers = servicesOf(c.inbounds), slices.Sorted(m.Destinations()), servicesOf(c.sources)
	return c
}

// servicesOf names the services of tag sets.
func servicesOf(sets map[string]mesh.Tags) []string {
	names := map[string]bool{}
	for _, tags := range sets {
		names[tags.Service()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (c *census) add(n *mesh.Networking) {
	for _, in := range selection.Inbounds(n) {
		text := in.Tags.String()
		c.inbounds[text] = in.Tags
		c.counts[text]++
	}
	var texts []string
	sets := selection.Sources(n)
	for _, tags := range sets {
		text := tags.String()
		c.sources[text] = tags
		texts = append(texts, text)
	}
	slices.Sort(texts)
	if key := strings.Join(texts, ";"); c.proxies[key] == nil {
		c.proxies[key] = valuesOf(sets)
	}
	for _, o := range selection.Declared(n) {
		c.outbounds[o.Tags.Service()] = true
	}
}

// valuesOf are the values of each tag of some sets.
func valuesOf(sets []mesh.Tags) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, tags := range sets {
		for key, value := range tags {
			if out[key] == nil {
				out[key] = map[string]bool{}
			}
			out[key][value] = true
		}
	}
	return out
}
