package inspect

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// census describes who is in a mesh, as policies select them. Replicas count once, so that
// policies are compared with as many tag sets as there are services, not proxies.
type census struct {
	// inbounds and sources are tag sets by their text form: those of inbounds, and those that
	// proxies have as callers.
	inbounds, sources map[string]mesh.Tags
	// counts is the number of inbounds with a tag set.
	counts map[string]int
	// proxies are the values of each tag in the certificates of proxies.
	proxies map[string]map[string]map[string]bool
	// outbounds are the services that outbounds name; services are those that are served.
	outbounds map[string]bool
	services  []string
}

// take makes the census of a mesh in one pass over its proxies.
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

// valuesOf returns the values of each tag in some sets.
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
