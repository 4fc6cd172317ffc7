package sidecar

import (
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// shape is what of a dataplane decides its configuration, but for the addresses
// it listens on. Dataplanes of equal shape are one class.
type shape struct {
	Inbounds  []inboundShape
	Outbounds []selection.Outbound
	// Gateway are the tags of a gateway. Those of somebody else's are read nowhere, but tell its class from
	// those of others: without them, gateways without inbounds would share the policies and the identity of
	// whichever came first.
	Gateway mesh.Tags `json:",omitempty"`
	// Builtin gateways are ours, and not somebody else's beside a sidecar. At is then where they
	// listen.
	Builtin bool   `json:",omitempty"`
	At      string `json:",omitempty"`
	// Transparent proxies listen on addresses that are not theirs.
	Transparent bool `json:",omitempty"`
	// Everything is set for proxies that may reach every service of the mesh;
	// Reachable bounds that if it is not empty.
	Everything bool     `json:",omitempty"`
	Reachable  []string `json:",omitempty"`
	// RedirectOutbound is where the operating system sends what leaves.
	RedirectOutbound, RedirectInbound uint32 `json:",omitempty"`
	// IPv6 says that it redirects connections of IPv6, too.
	IPv6 bool `json:",omitempty"`
	// Bare proxies lack the filter.
	Bare bool `json:",omitempty"`
	// Unscraped says why the metrics of the mesh cannot be.
	Unscraped string `json:",omitempty"`
	// Probes are answered by the proxy.
	Probes *mesh.Probes `json:",omitempty"`
	// Direct are the services whose instances workloads call by their own addresses, ordered.
	Direct []string `json:",omitempty"`
}

type inboundShape struct {
	Port, WorkloadPort uint32
	WorkloadAddress    string
	Tags               mesh.Tags
	// Cluster leads to the workload, Table is the route table of HTTP inbounds.
	Cluster, Table string
	// Scraping is set for the inbound of the metrics, whose workload is the agent.
	Scraping *mesh.Scraping `json:",omitempty"`
	// Leaving is set for what egresses have in the place of an inbound, whose workload is outside
	// the mesh. Asked is the host for which that is asked, empty for what callers ask.
	Leaving bool   `json:",omitempty"`
	Asked   string `json:",omitempty"`
}

const loopback = selection.Loopback

// shapeOf reads a dataplane. Ignored inbounds and those without a service have no
// listener; inbounds that are not ready have one, for their checks.
func shapeOf(m *view.Mesh, d *view.Dataplane) shape {
	n := d.Spec.Networking
	if n == nil {
		return shape{}
	}
	var s shape
	if n.Gateway != nil {
		s.Gateway = n.Gateway.Tags
	}
	if selection.Builtin(n) {
		s.Builtin, s.At = true, atHome(n)
	}
	if tp := n.TransparentProxying; tp != nil && tp.RedirectPortOutbound != 0 {
		s.Transparent = true
		s.RedirectOutbound, s.RedirectInbound = tp.RedirectPortOutbound, tp.RedirectPortInbound
		s.IPv6 = tp.IPFamilyMode == mesh.IPFamilyDual || tp.IPFamilyMode == mesh.IPFamilyIPv6
	}
	s.Everything, s.Reachable = selection.Everything(n)
	for _, in := range selection.Inbounds(n) {
		is := inboundShape{Port: in.Port, WorkloadPort: in.ServicePort, WorkloadAddress: in.ServiceAddress, Tags: in.Tags}
		if is.WorkloadPort == 0 {
			is.WorkloadPort = in.Port
		}
		if is.WorkloadAddress == "" && !s.Transparent {
			is.WorkloadAddress = loopback
		}
		s.Inbounds = append(s.Inbounds, is)
	}
	s.Direct = selection.Direct(n)
	if !s.Builtin {
		s.Probes = d.Spec.Probes
	}
	s.name()
	s.scrape(m, d)
	s.Outbounds = selection.Declared(n)
	return s
}

// name gives the inbounds the names of what only they use. Inbounds of one
// workload share a cluster; what differs in more than the port is told apart.
func (s *shape) name() {
	served, clusters, tables := map[string]int{}, map[string]string{}, map[string]bool{}
	taken := map[string]bool{}
	for i := range s.Inbounds {
		served[s.Inbounds[i].Tags.Service()]++
	}
	for i := range s.Inbounds {
		in := &s.Inbounds[i]
		suffix := ":" + strconv.Itoa(i)
		workload := hostPort(in.WorkloadAddress, in.WorkloadPort) + " " + in.Tags.Protocol()
		if in.Cluster = clusters[workload]; in.Cluster == "" {
			if in.Cluster = localCluster(in.WorkloadPort); taken[in.Cluster] {
				in.Cluster += suffix
			}
			clusters[workload], taken[in.Cluster] = in.Cluster, true
		}
		in.Table = inboundPrefix + in.Tags.Service()
		if served[in.Tags.Service()] > 1 {
			in.Table += ":" + strconv.FormatUint(uint64(in.Port), 10)
		}
		if tables[in.Table] {
			in.Table += suffix
		}
		tables[in.Table] = true
	}
}

// key is equal for equal shapes.
func (s *shape) key() string {
	b, err := json.Marshal(s)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return string(b)
}

// zone is the locality of the proxy.
func zone(sources []mesh.Tags) string {
	for _, t := range sources {
		if z := t[mesh.TagZone]; z != "" {
			return z
		}
	}
	return ""
}

// listening returns the address that each inbound of the shape listens on. The last one is that
// of the metrics, if there are any.
func listening(d *view.Dataplane) []string {
	n := d.Spec.Networking
	if n == nil {
		return nil
	}
	var out []string
	for _, in := range selection.Inbounds(n) {
		address := in.Address
		if address == "" {
			address = atHome(n)
		}
		out = append(out, address)
	}
	return append(out, atHome(n))
}

// everywhere is all IPv4 addresses of a host.
const everywhere = "0.0.0.0"

// atHome is where a proxy listens unless an inbound says otherwise. Envoy binds no
// names: a proxy that others know by one listens on all addresses. Redirected
// connections are told by their address, so a transparent proxy needs one.
func atHome(n *mesh.Networking) string {
	_, err := netip.ParseAddr(n.Address)
	switch tp := n.TransparentProxying; {
	case err == nil, tp != nil && tp.RedirectPortOutbound != 0:
		return n.Address
	case n.Address == "localhost":
		return loopback
	}
	return everywhere
}
