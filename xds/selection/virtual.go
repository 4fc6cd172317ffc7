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
	// Known are ordered by service, host, port and tags. No two have one host and port.
	Known []mesh.Name
	// Left are those that were left out, because others of the same host and port come before
	// them.
	Left []LeftOut
}

// LeftOut is a name that leads elsewhere.
type LeftOut struct {
	mesh.Name
	// By is the VirtualOutbound that gives the name, First what the name leads to instead.
	By, First string
}

// Error implements error.
func (l *LeftOut) Error() string {
	return fmt.Sprintf("VirtualOutbound %q also gives the name %s to %s; there the name leads to %s",
		l.By, at(l.Host, l.Port), l.Tags, l.First)
}

// NamesOf returns the names of a mesh. Each service has one of its own, whatever makes it a
// destination. Then come those that resources bring with them, then those of VirtualOutbounds
// in the order of their names.
func NamesOf(m *view.Mesh) Names {
	var out Names
	taken := map[string]int{}
	add := func(n mesh.Name) (first int, ok bool) {
		key := at(n.Host, n.Port)
		if i, is := taken[key]; is {
			return i, maps.Equal(out.Known[i].Tags, n.Tags)
		}
		taken[key] = len(out.Known)
		out.Known = append(out.Known, n)
		return 0, true
	}
	for _, service := range slices.Sorted(m.Destinations()) {
		add(mesh.Name{Host: mesh.ServiceHost(service), Port: mesh.ServicePort, Tags: mesh.Tags{mesh.TagService: service}})
	}
	hosts := m.Hosts()
	slices.SortFunc(hosts, compareNames)
	for _, n := range hosts {
		add(n)
	}
	for _, v := range m.VirtualNames() {
		if i, ok := add(v.Name); !ok {
			out.Left = append(out.Left, LeftOut{v.Name, v.By, out.Known[i].Tags.String()})
		}
	}
	slices.SortFunc(out.Known, compareNames)
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
	var spelled []mesh.Name
	for _, n := range names.Known {
		a, ok := addresses[n.Host]
		if !ok || !Reachable(reachable, n.Tags.Service()) {
			continue
		}
		out = append(out, Outbound{Address: a.String(), Port: n.Port, Tags: n.Tags})
		host := strings.ToLower(n.Host) // resolvers make no difference
		if _, is := hosts[host]; !is && mesh.IsHost(host) {
			hosts[host] = a
		}
		if strings.Contains(n.Tags.Service(), "_") && n.Host == mesh.ServiceHost(n.Tags.Service()) {
			spelled = append(spelled, n)
		}
	}
	// A service with underscores is also known with dots, unless something has that very name.
	for _, n := range spelled {
		host := strings.ToLower(strings.ReplaceAll(n.Host, "_", "."))
		if _, is := hosts[host]; !is && mesh.IsHost(host) {
			hosts[host] = addresses[n.Host]
		}
	}
	for _, l := range names.Left {
		if Reachable(reachable, l.Tags.Service()) {
			left = append(left, l)
		}
	}
	return out, hosts, left
}
