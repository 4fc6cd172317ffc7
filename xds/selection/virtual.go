package selection

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// Names are what transparent proxies of a mesh know by host names.
type Names struct {
	// Known are ordered by service, host, port and tags. No two have one host and port. The
	// host is the one whose address is stored.
	Known []mesh.Name
	// Named are those of Known that only VirtualOutbounds give, in the order of these.
	Named []mesh.Name
	// Left are those that were left out, because others of the same host and port come before
	// them.
	Left []LeftOut

	// spelled maps what resolvers look up to the host of Known that is meant.
	spelled map[string]string
	// taken has the index in Known by host and port.
	taken map[string]int
}

// LeftOut is a name that leads elsewhere.
type LeftOut struct {
	mesh.Name
	// By is the VirtualOutbound that gives the name, empty for a gateway of another mesh; First is
	// what the name leads to instead.
	By, First string
}

// Error implements error.
func (l *LeftOut) Error() string {
	if of, service, ok := mesh.ParseCrossService(l.Tags.Service()); ok && l.By == "" {
		return fmt.Sprintf("gateway %q of mesh %q also has the name %s; here the name leads to %s", service, of, at(l.Host, l.Port), l.First)
	}
	return fmt.Sprintf("VirtualOutbound %q also gives the name %s to %s; there the name leads to %s",
		l.By, at(l.Host, l.Port), l.Tags, l.First)
}

// NamesOf returns the names of a mesh. Each service has one of its own, whatever makes it a
// destination. Then come those that resources bring with them, then those of VirtualOutbounds
// in the order of their names, then those of gateways that other meshes may call, and last those of
// gateways of other meshes. Of what one VirtualOutbound gives one name to, the one comes first that is
// stored as its holder.
func NamesOf(m *view.Mesh) Names {
	out := Names{spelled: map[string]string{}, taken: map[string]int{}}
	out.services(slices.Sorted(m.Destinations()))
	hosts := m.Hosts()
	slices.SortFunc(hosts, compareNames)
	for _, n := range hosts {
		out.add(n)
	}
	for _, v := range out.virtual(m) {
		before := len(out.Known)
		i, ok := out.add(v.Name)
		switch {
		case !ok:
			out.Left = append(out.Left, LeftOut{v.Name, v.By, out.Known[i].Tags.String()})
		case len(out.Known) > before:
			out.Named = append(out.Named, out.Known[i])
		}
	}
	own, others := m.CrossHosts()
	out.across(own)
	out.across(others)
	slices.SortFunc(out.Known, compareNames)
	out.taken = nil // the indexes are those of another order
	return out
}

// services adds the names of services. Resolvers make no difference between cases, and look up
// no underscores. So services are also known in lower case and with dots. The name that a service
// has as it is comes before what is made of the name of another, so that no service takes it.
func (n *Names) services(names []string) {
	for _, service := range names {
		host := mesh.ServiceHost(service)
		n.add(mesh.Name{Host: host, Port: mesh.ServicePort, Tags: mesh.Tags{mesh.TagService: service}})
	}
	for _, service := range names {
		host := mesh.ServiceHost(service)
		n.spell(strings.ToLower(host), host)
	}
	for _, service := range names {
		host := mesh.ServiceHost(service)
		n.spell(strings.ToLower(strings.ReplaceAll(host, "_", ".")), host)
	}
}

// across adds the names of gateways that are called from other meshes. They take no name that there
// is already, at no port.
func (n *Names) across(names []mesh.Name) {
	own := make(map[string]int, len(n.Known))
	for i := range n.Known {
		own[n.Known[i].Host] = i
	}
	for _, name := range names {
		host := name.Host
		if meant, is := n.spelled[host]; is {
			host = meant
		}
		i, taken := own[host]
		if !taken {
			i, taken = n.add(name)
			taken = !taken
		}
		if taken {
			n.Left = append(n.Left, LeftOut{name, "", n.Known[i].Tags.String()})
		}
	}
}

// spell notes that a host is meant by a text, unless another one is.
func (n *Names) spell(text, host string) {
	if _, is := n.spelled[text]; !is && mesh.IsHost(text) {
		n.spelled[text] = host
	}
}

// add adds a name and returns its index in Known. If something else has the host and the port, ok
// is false, and first is the index of that. A host that means another one is at its address.
func (n *Names) add(name mesh.Name) (first int, ok bool) {
	if host, is := n.spelled[name.Host]; is {
		name.Host = host
	}
	key := at(name.Host, name.Port)
	if i, is := n.taken[key]; is {
		return i, maps.Equal(n.Known[i].Tags, name.Tags)
	}
	n.spell(name.Host, name.Host)
	n.taken[key] = len(n.Known)
	n.Known = append(n.Known, name)
	return len(n.Known) - 1, true
}

// virtual returns what VirtualOutbounds name, with the holders of names before others to which
// the same VirtualOutbound gives them.
func (n *Names) virtual(m *view.Mesh) []*view.VirtualName {
	out := m.VirtualNames()
	waits := func(v *view.VirtualName) int {
		host := v.Host
		if h, is := n.spelled[host]; is {
			host = h
		}
		if m.Holders(host)[v.Port].Tags == v.Tags.String() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *view.VirtualName) int {
		return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(waits(a), waits(b)))
	})
	return out
}

func at(host string, port uint32) string {
	return host + ":" + strconv.FormatUint(uint64(port), 10)
}

func compareNames(a, b mesh.Name) int {
	return cmp.Or(cmp.Compare(a.Tags.Service(), b.Tags.Service()), cmp.Compare(a.Host, b.Host),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Tags.String(), b.Tags.String()))
}

// Hosts returns the distinct host names in the order in which they get addresses.
func (n *Names) Hosts() []string {
	seen := map[string]bool{}
	var out []string
	for i := range n.Known {
		if host := n.Known[i].Host; !seen[host] {
			seen[host] = true
			out = append(out, host)
		}
	}
	mesh.SortHosts(out)
	return out
}

// addresses returns the address of each host name that has one. A mesh without any stored address
// has those that are about to be stored.
func (n *Names) addresses(m *view.Mesh) map[string]netip.Addr {
	if m.Addressed() == 0 {
		return Assign(n.Hosts(), func(netip.Addr) bool { return false })
	}
	out := make(map[string]netip.Addr, len(n.Known))
	for i := range n.Known {
		if a, ok := m.Address(n.Known[i].Host); ok {
			out[n.Known[i].Host] = a
		}
	}
	return out
}

// Assign gives addresses to host names without one, in their order. taken reports whether an
// address belongs to another name already.
func Assign(hosts []string, taken func(netip.Addr) bool) map[string]netip.Addr {
	out, used := make(map[string]netip.Addr, len(hosts)), make(map[netip.Addr]bool, len(hosts))
	for _, host := range hosts {
		a := mesh.FirstAddress(host)
		for used[a] || taken(a) {
			a = mesh.NextAddress(a)
		}
		out[host], used[a] = a, true
	}
	return out
}

// Virtual are the outbounds of a proxy that reaches every service: one for each name that the
// mesh has for it, or only for those of the reachable services if there are some.
func Virtual(m *view.Mesh, reachable []string) (out []Outbound) {
	out, _, _ = VirtualNamed(m, reachable)
	return out
}

// VirtualNamed is [Virtual] with the addresses by the host names that resolvers look up, and the
// names of these services that were left out.
func VirtualNamed(m *view.Mesh, reachable []string) (out []Outbound, hosts map[string]netip.Addr, left []LeftOut) {
	names := NamesOf(m)
	addresses := names.addresses(m)
	hosts = map[string]netip.Addr{}
	reached := map[string]netip.Addr{}
	for _, n := range names.Known {
		a, ok := addresses[n.Host]
		if !ok || !Reachable(reachable, n.Tags.Service()) {
			continue
		}
		out = append(out, Outbound{Address: a.String(), Port: n.Port, Tags: n.Tags})
		reached[n.Host] = a
	}
	for text, host := range names.spelled {
		if a, ok := reached[host]; ok {
			hosts[text] = a
		}
	}
	for _, l := range names.Left {
		if Reachable(reachable, l.Tags.Service()) {
			left = append(left, l)
		}
	}
	return out, hosts, left
}
