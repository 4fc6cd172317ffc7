package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// census describes who is in a mesh, as policies select them. Replicas count once, so that
// policies are compared with as many tag sets as there are services, not proxies.
type census struct {
	// inbounds, sources and beyond are tag sets by their text form: those of inbounds, those
	// that proxies have as callers, and those of places outside the mesh that callers reach.
	inbounds, sources, beyond map[string]mesh.Tags
	// listeners are the tag sets by which targets select listeners of gateways, and gateways the
	// names of these, in order.
	listeners map[string]mesh.Tags
	gateways  []string
	// counts is the number of inbounds with a tag set.
	counts map[string]int
	// proxies are the values of each tag in the certificates of proxies.
	proxies map[string]map[string]map[string]bool
	// outbounds are the services that outbounds name.
	outbounds map[string]bool
	// served are the services of inbounds, reachable these and those of beyond, and callers
	// those of sources, in order.
	served, reachable, callers []string
}

// take makes the census of a mesh in one pass over its proxies.
func take(m *view.Mesh) *census {
	c := &census{
		inbounds: map[string]mesh.Tags{}, sources: map[string]mesh.Tags{}, beyond: map[string]mesh.Tags{}, counts: map[string]int{},
		proxies: map[string]map[string]map[string]bool{}, outbounds: map[string]bool{}, listeners: map[string]mesh.Tags{},
	}
	for d := range m.Dataplanes() {
		if d.Spec.Networking != nil {
			c.add(d.Spec.Networking)
		}
		for _, tags := range selection.Listened(m, d.Spec.Networking) {
			c.listeners[tags.String()] = tags
			if name := tags[mesh.ListenerOf]; !slices.Contains(c.gateways, name) {
				c.gateways = append(c.gateways, name)
			}
		}
		if s, err := selection.Scraped(m, d.Spec); err == nil && s != nil {
			c.inbound(s.Tags)
		}
	}
	for _, l := range m.Beyond() {
		for _, e := range l.Members() {
			c.beyond[e.Tags.String()] = e.Tags
		}
	}
	slices.Sort(c.gateways)
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

func (c *census) inbound(tags mesh.Tags) {
	text := tags.String()
	c.inbounds[text] = tags
	c.counts[text]++
}

func (c *census) add(n *mesh.Networking) {
	for _, in := range selection.Inbounds(n) {
		c.inbound(in.Tags)
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
