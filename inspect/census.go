package inspect

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// census is who is in a mesh, by what policies select them: replicas count once, so that
// policies are held against as many tag sets as there are services, and not proxies.
type census struct {
	// inbounds and sources are tag sets by their texts: of inbounds, and of what proxies
	// stand for where they call.
	inbounds, sources map[string]mesh.Tags
	// counts says how many inbounds have a tag set.
	counts map[string]int
	// proxies are the values of each tag in the certificates of proxies.
	proxies map[string]map[string]map[string]bool
	// outbounds are services that outbounds name, services those that are served.
	outbounds map[string]bool
	services  []string
}

// take counts who is in a mesh, in one walk over its proxies.
func take(m *view.Mesh) *census {
	c := &census{
		inbounds: map[string]mesh.Tags{}, sources: map[string]mesh.Tags{}, counts: map[string]int{},
		proxies: map[string]map[string]map[string]bool{}, outbounds: map[string]bool{}, services: servicesOf(m),
	}
	for d := range m.Dataplanes() {
		if d.Spec.Networking != nil {
			c.add(d.Spec.Networking)
		}
	}
	return c
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
