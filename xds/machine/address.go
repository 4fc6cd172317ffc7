package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/directing"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/scraping"
)

// These are the names of messages and fields that determine where Envoy connects to.
const (
	socketAddress protoreflect.FullName = "envoy.config.core.v3.SocketAddress"
	healthCheck   protoreflect.FullName = "envoy.config.core.v3.HealthCheck"
	endpoint      protoreflect.FullName = "envoy.config.endpoint.v3.Endpoint"
	cluster       protoreflect.FullName = "envoy.config.cluster.v3.Cluster"
	// byRequest lets a header of a request choose its address, or sets another port.
	byRequest protoreflect.FullName = "envoy.config.cluster.v3.Cluster.OriginalDstLbConfig"
	// byClient and oldByClient let a client tell, in a header of its connection, where the
	// connection was going to.
	byClient    protoreflect.FullName = "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"
	oldByClient protoreflect.FullName = "envoy.config.listener.v3.FilterChain.use_proxy_proto"
	// stateKey is the key of a value that a filter stores about a connection.
	stateKey   protoreflect.FullName = "envoy.extensions.filters.common.set_filter_state.v3.FilterStateValue.object_key"
	stateValue protoreflect.FullName = "envoy.extensions.filters.common.set_filter_state.v3.FilterStateValue"
	// chosenAddress is the key of an address that replaces the original address of a
	// connection.
	chosenAddress = "envoy.network.transport_socket.original_dst_address"
)

// from are the fields with addresses on which Envoy listens or from which it connects.
var from = map[protoreflect.FullName]bool{
	"envoy.config.listener.v3.Listener.address":                   true,
	"envoy.config.listener.v3.AdditionalAddress.address":          true,
	"envoy.config.core.v3.BindConfig.source_address":              true,
	"envoy.config.core.v3.BindConfig.additional_source_addresses": true,
	"envoy.config.core.v3.ExtraSourceAddress.address":             true,
}

// These are the numbers of fields that are rarely present.
const (
	fieldAssignment = 33 // of a cluster
	fieldProbe      = 2  // of an endpoint
)

// leads checks where a message makes Envoy connect to.
func (w *walk) leads(md protoreflect.MessageDescriptor, body []byte) error {
	switch md.FullName() {
	case byRequest, byClient:
		return chosen(md.FullName())
	case socketAddress:
		var a corev3.SocketAddress
		if w.from > 0 {
			return nil
		}
		if proto.Unmarshal(body, &a) != nil {
			return errMalformed
		}
		return w.bounds.reaches(&a, a.GetPortValue())
	case stateValue:
		w.redirected = directing.IsChoice(body)
	case healthCheck:
		var c corev3.HealthCheck
		if proto.Unmarshal(body, &c) != nil {
			return errMalformed
		}
		// Another resource contains the address, so the port is checked alone.
		if p := c.GetAltPort().GetValue(); p != 0 {
			return w.bounds.guarded(p, "port "+strconv.FormatUint(uint64(p), 10))
		}
	case endpoint:
		return w.probed(md, body)
	case cluster:
		if name, err := last(md, body, 1); err != nil || string(name) == bootstrap.ADSCluster || string(name) == contract.AuthzCluster || string(name) == logsink.Cluster || string(name) == scraping.Cluster {
			return errors.Join(err, fmt.Errorf("it has the name %q, which is the bootstrap's", name))
		}
		return w.workload(md, body)
	}
	return nil
}

// probed checks where an endpoint is health-checked. The check may combine its own port with
// another address, or its own address with another port.
func (w *walk) probed(md protoreflect.MessageDescriptor, body []byte) error {
	if probe, err := last(md, body, fieldProbe); err != nil || probe == nil {
		return err
	}
	var e endpointv3.Endpoint
	if proto.Unmarshal(body, &e) != nil {
		return errMalformed
	}
	addresses := []*corev3.Address{e.GetAddress(), e.GetHealthCheckConfig().GetAddress()}
	for _, a := range e.GetAdditionalAddresses() {
		addresses = append(addresses, a.GetAddress())
	}
	for _, a := range addresses {
		if a.GetSocketAddress() == nil {
			continue // the check has no address of its own
		}
		for _, of := range addresses {
			for _, port := range []uint32{of.GetSocketAddress().GetPortValue(), e.GetHealthCheckConfig().GetPortValue()} {
				if err := w.bounds.reaches(a.GetSocketAddress(), port); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// workload checks a cluster that contains its endpoints as fixed addresses. In a mesh these
// are the proxy's own workloads, whatever the name of the cluster: destinations come as
// assignments or are resolved.
func (w *walk) workload(md protoreflect.MessageDescriptor, body []byte) error {
	if !w.bounds.Workloads {
		return nil
	}
	if own, err := last(md, body, fieldAssignment); err != nil || own == nil {
		return err
	}
	var c clusterv3.Cluster
	if proto.Unmarshal(body, &c) != nil {
		return errMalformed
	}
	if c.GetType() != clusterv3.Cluster_STATIC {
		return nil
	}
	for _, l := range c.GetLoadAssignment().GetEndpoints() {
		for _, e := range slices.Concat(l.GetLbEndpoints(), l.GetLoadBalancerEndpoints().GetLbEndpoints()) { //nolint:staticcheck // a control plane can still send the old one
			addresses := []*corev3.Address{e.GetEndpoint().GetAddress()}
			for _, a := range e.GetEndpoint().GetAdditionalAddresses() {
				addresses = append(addresses, a.GetAddress())
			}
			for _, a := range addresses {
				if err := w.bounds.isWorkload(a.GetSocketAddress().GetAddress()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isWorkload returns an error for an address where no workload of this machine may be.
func (b Bounds) isWorkload(text string) error {
	ip, err := netip.ParseAddr(text)
	if err == nil && b.allows(ip) {
		return nil
	}
	if err == nil {
		here, err := b.here(ip)
		if err != nil {
			return fmt.Errorf("its workload is at %q, which is not what its agent was started with (--workload-address), and %w", text, err)
		}
		if here {
			return nil
		}
	}
	return fmt.Errorf("its workload is at %q, which is neither this machine nor an address that its agent was started with (--workload-address)", text)
}

// Asks returns an error for an address at which this machine has no application that its agent may
// ask for metrics: its workloads are there, and nobody answers operators.
func (b Bounds) Asks(at netip.AddrPort) error {
	if err := b.isWorkload(at.Addr().String()); err != nil {
		return err
	}
	return b.Reaches(at.Addr().String(), at.Port())
}

// Reaches returns an error for an address that a proxy must not lead to, neither in Envoy nor in
// its agent. host is an IP address or a name; a name has to be checked again once it is resolved.
func (b Bounds) Reaches(host string, port uint16) error {
	return b.reaches(&corev3.SocketAddress{Address: host}, uint32(port))
}

// reaches returns an error for an address that Envoy must not connect to.
func (b Bounds) reaches(a *corev3.SocketAddress, port uint32) error {
	if b.anywhere {
		return nil
	}
	text := a.GetAddress()
	if a.GetNamedPort() != "" {
		return fmt.Errorf("it leads to a port by a name (%q)", a.GetNamedPort())
	}
	at := net.JoinHostPort(text, strconv.FormatUint(uint64(port), 10))
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return b.named(text, port, at)
	}
	ip = ip.Unmap().WithZone("")
	if (ip.IsLinkLocalUnicast() || hostname.IsMetadata(ip)) && !b.allows(ip) {
		return fmt.Errorf("it leads to %s, where machines are told secrets, and which its agent was not started with (--workload-address)", ip)
	}
	if b.Elsewhere && !b.allows(ip) {
		if here, err := b.here(ip); here || err != nil {
			return fmt.Errorf("it leads strangers to %s on this machine, which its agent was not started with (--workload-address)", ip)
		}
	}
	wrong := b.guarded(port, at)
	if wrong == nil {
		return nil
	}
	if here, err := b.here(ip); here || err != nil {
		return errors.Join(wrong, err)
	}
	return nil
}

// named does what [Bounds.reaches] does, for a name. Only a resolver knows where a name leads,
// so no name may be combined with the port of Envoy's administration, or with one at which the
// control plane on this machine trusts it, even if it means another machine.
func (b Bounds) named(name string, port uint32, at string) error {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
	switch {
	case b.Elsewhere && hostname.IsLocal(name):
		return fmt.Errorf("it leads strangers to %q, which is this machine or tells it secrets", name)
	case b.Elsewhere && !slices.ContainsFunc(b.Names, func(s hostname.Suffix) bool { return s.Has(name) }):
		return fmt.Errorf("it leads to %q, and nobody knows whether that will be this machine: an egress needs --external-name for it", name)
	case b.Elsewhere && b.operators(port):
		return answersOperators(at)
	case labels[len(labels)-1] == "localhost" && b.operators(port), port != 0 && port == uint32(b.Admin):
		return answersOperators(at)
	case b.trusting(port):
		return trusts(at)
	case hostname.EndsInNumber(name):
		return fmt.Errorf("it leads to %q, which resolvers may read as an address", name)
	}
	return nil
}

// guarded returns why nothing may lead to a port of this machine, or nil.
func (b Bounds) guarded(port uint32, at string) error {
	switch {
	case b.operators(port):
		return answersOperators(at)
	case b.trusting(port):
		return trusts(at)
	}
	return nil
}

// trusting reports whether the control plane trusts whoever connects to a port from this machine.
func (b Bounds) trusting(port uint32) bool {
	return b.Trusting != nil && slices.ContainsFunc(b.Trusting(), func(p uint16) bool { return port == uint32(p) })
}

// operators reports whether a port of this machine is for operators.
func (b Bounds) operators(port uint32) bool {
	return port != 0 && (port == uint32(b.Admin) || port == uint32(b.Status))
}

// allows reports whether an address is among the allowed ones.
func (b Bounds) allows(ip netip.Addr) bool {
	return slices.ContainsFunc(b.Allowed, func(p netip.Prefix) bool { return p.Contains(ip.Unmap().WithZone("")) })
}

// here reports whether an address belongs to this machine. It reads the interfaces each time,
// because they change.
func (b Bounds) here(ip netip.Addr) (bool, error) {
	if ip = ip.Unmap().WithZone(""); ip.IsLoopback() || ip.IsUnspecified() {
		return true, nil
	}
	local := b.Local
	if local == nil {
		local = interfaces
	}
	own, err := local()
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	return slices.Contains(own, ip), nil
}

// ErrUnread says that the addresses of this machine could not be read. What depends on them is
// refused, although it may be permitted.
var ErrUnread = errors.New("the addresses of this machine cannot be read")

// once returns the bounds with one look at the addresses of this machine, for one resource.
func (b Bounds) once() Bounds {
	local := b.Local
	if local == nil {
		local = interfaces
	}
	b.Local = sync.OnceValues(local)
	return b
}

// interfaces returns the addresses of this machine's network interfaces.
func interfaces() (out []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap().WithZone(""))
		}
	}
	return out, nil
}

func answersOperators(at string) error {
	return fmt.Errorf("it leads to %s, where the proxy's agent or its Envoy answers operators", at)
}

func trusts(at string) error {
	return fmt.Errorf("it leads to %s, where the control plane on this machine takes whoever is on it for an administrator (access.localhostIsAdmin)", at)
}

func chosen(by protoreflect.FullName) error {
	return fmt.Errorf("it has each request choose the address that the proxy connects to (%s)", by)
}
