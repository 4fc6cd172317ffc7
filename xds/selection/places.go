package selection

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
)

// Loopback is where outbounds listen, and workloads are, unless something else is said.
const Loopback = "127.0.0.1"

// Outbound is a port through which a proxy reaches a service.
type Outbound struct {
	Address string
	Port    uint32
	Tags    mesh.Tags
}

// Name tells outbounds apart.
func (o *Outbound) Name() string { return hostPort(o.Address, o.Port) }

// Inbounds are the inbounds of a dataplane that policies may be chosen for: those
// without a service have no listener.
func Inbounds(n *mesh.Networking) (out []*mesh.Inbound) {
	for i := range n.Inbound {
		if n.Inbound[i].Tags.Service() != "" {
			out = append(out, &n.Inbound[i])
		}
	}
	return out
}

// Scraped returns how the metrics of a dataplane are scraped, nil if they are not; see
// [mesh.Mesh.Scraping]. The listener for that is an inbound for which policies are chosen by the
// tags of the metrics.
func Scraped(m *view.Mesh, d *mesh.Dataplane) (*mesh.Scraping, error) {
	if m.Spec() == nil || d.Networking == nil {
		return nil, nil //nolint:nilnil // no scraping is an answer
	}
	s, err := m.Spec().Spec.Scraping(d)
	if s == nil {
		return nil, err
	}
	tags := maps.Clone(s.Tags)
	tags[mesh.TagProtocol] = mesh.ProtocolHTTP
	s.Tags = tags
	return s, nil
}

// Declared are the outbounds that a dataplane lists. One with the tag of a mesh leads to gateways of
// that mesh.
func Declared(n *mesh.Networking) (out []Outbound) {
	for i := range n.Outbound {
		o := &n.Outbound[i]
		if tags := o.EffectiveTags(); tags.Service() != "" {
			out = append(out, Outbound{Address: cmp.Or(o.Address, Loopback), Port: o.Port, Tags: mesh.AcrossMeshes(tags)})
		}
	}
	return out
}

// Everything reports whether a proxy reaches every service of its mesh, and which of
// them if only some: one that takes what the operating system redirects, and lists no
// outbounds.
func Everything(n *mesh.Networking) (yes bool, reachable []string) {
	tp := n.TransparentProxying
	if tp == nil || tp.RedirectPortOutbound == 0 {
		return false, nil
	}
	return len(n.Outbound) == 0, slices.Sorted(slices.Values(tp.ReachableServices))
}

// Reachable reports whether a proxy that reaches every service reaches one; reachable
// are those that it is bound to, if there are some.
func Reachable(reachable []string, service string) bool {
	return len(reachable) == 0 || slices.Contains(reachable, service)
}

// Direct lists the services whose instances the workloads of a proxy call by their own addresses,
// ordered, or only [mesh.AnyValue].
func Direct(n *mesh.Networking) []string {
	if n.TransparentProxying == nil {
		return nil
	}
	out := slices.Compact(slices.Sorted(slices.Values(n.TransparentProxying.DirectAccessServices)))
	if slices.Contains(out, mesh.AnyValue) {
		return []string{mesh.AnyValue}
	}
	return out
}

// DirectServices lists the services that [Direct] means in a mesh.
func DirectServices(m *view.Mesh, direct []string) []string {
	if !slices.Contains(direct, mesh.AnyValue) {
		return direct
	}
	return slices.Sorted(m.Destinations())
}

// Sources are the tag sets that a proxy stands for.
func Sources(n *mesh.Networking) (out []mesh.Tags) {
	if n.Gateway != nil && n.Gateway.Tags != nil {
		out = append(out, n.Gateway.Tags)
	}
	for _, in := range Inbounds(n) {
		out = append(out, in.Tags)
	}
	return out
}

// Destinations lists the distinct targets of a split and their services, the
// outbound's own service if there are none.
func Destinations(split *draft.Split, own string) (destinations []mesh.Tags, services []string) {
	seen := map[string]bool{}
	if split != nil {
		for _, t := range split.Destinations() {
			if k := t.Tags.String(); !seen[k] {
				seen[k] = true
				destinations = append(destinations, t.Tags)
				if !slices.Contains(services, t.Tags.Service()) {
					services = append(services, t.Tags.Service())
				}
			}
		}
	}
	if len(services) == 0 {
		services = []string{own}
	}
	return destinations, services
}

// Principal is the service whose policies shape the listener and the routes of an
// outbound: its own if it is reached at all, otherwise the first that is.
func Principal(services []string, own string) string {
	if slices.Contains(services, own) {
		return own
	}
	return services[0]
}

func hostPort(address string, port uint32) string {
	return net.JoinHostPort(address, strconv.FormatUint(uint64(port), 10))
}
