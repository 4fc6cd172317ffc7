package mesh

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/model"
)

const (
	loopback   = "127.0.0.1"
	textPort   = "port must be in the range [1, 65535]"
	textDiffer = "serviceAddress and servicePort has to differ from address and port"
	textProbe  = "should be a valid URL Path"
	// What nothing would do is refused: a proxy that silently lacks it looks as if it had it.
	textNoBackends   = "is not supported: there are no such resources. Use reachableServices"
	textNoBackendRef = "is not supported: there are no such resources. Name the service by tags"
	// Prometheus is the only type of metrics backend.
	Prometheus = "prometheus"
)

// protocols is in the order in which messages list them.
var protocols = []string{ProtocolGRPC, ProtocolHTTP, ProtocolHTTP2, ProtocolKafka, ProtocolTCP}

// dnsName is looser than RFC 1123, because container names contain underscores.
var dnsName = regexp.MustCompile(`^([a-zA-Z0-9_][a-zA-Z0-9_-]{0,62})(\.[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62})*\.?$`)

// validate returns all violations of a dataplane, without looking at other resources.
func (d *Dataplane) validate() []fault.Violation {
	var vs violations
	n := d.Networking
	if n == nil {
		vs.add("networking", "must be defined")
		return vs
	}
	vs.admin(n)
	switch {
	case n.Gateway == nil:
		if len(n.Inbound) == 0 {
			vs.add("networking", "has to contain at least one inbound interface or gateway")
		}
	case n.Gateway.Type == GatewayBuiltin:
		vs.gateway(n, "builtin")
		if len(n.Outbound) > 0 {
			vs.add("networking.outbound", "outbound cannot be defined for builtin gateways")
		}
		if d.Probes != nil {
			vs.add("networking.probes", "probes cannot be defined for builtin gateways")
		}
	default:
		vs.gateway(n, "delegated")
	}
	vs.address("networking.address", n.Address)
	if n.AdvertisedAddress != "" {
		vs.address("networking.advertisedAddress", n.AdvertisedAddress)
	}
	for i := range n.Inbound {
		vs.inbound(indexed("networking.inbound", i), &n.Inbound[i], n.Address)
	}
	vs.sockets(n)
	vs.manyProbes(n)
	for i := range n.Outbound {
		vs.outbound(indexed("networking.outbound", i), &n.Outbound[i])
	}
	vs.transparent("networking.transparentProxying", n.TransparentProxying)
	if n.Gateway == nil || n.Gateway.Type != GatewayBuiltin {
		vs.probes(d)
	}
	vs.ownMetrics(d.Metrics)
	return vs
}

// admin refuses an administration port on which something else of the proxy or its workload
// listens. The port is bound to the loopback address.
func (vs *violations) admin(n *Networking) {
	if n.Admin == nil || n.Admin.Port == 0 {
		return
	}
	port := n.Admin.Port
	if port > 65535 {
		vs.add("networking.admin.port", textPort)
	}
	if slices.ContainsFunc(n.Inbound, func(i Inbound) bool {
		return i.Port == port && onLoopback(or(i.Address, n.Address)) || orPort(i.ServicePort, i.Port) == port && onLoopback(or(i.ServiceAddress, loopback))
	}) {
		vs.add("networking.admin.port", "must differ from inbound")
	}
	if slices.ContainsFunc(n.Outbound, func(o Outbound) bool { return o.Port == port && onLoopback(or(o.Address, loopback)) }) {
		vs.add("networking.admin.port", "must differ from outbound")
	}
}

// onLoopback reports whether a socket at the address occupies its port on the loopback
// address.
func onLoopback(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && (ip.Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || ip.IsUnspecified())
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func orPort(p, otherwise uint32) uint32 {
	if p == 0 {
		return otherwise
	}
	return p
}

func (vs *violations) gateway(n *Networking, kind string) {
	if len(n.Inbound) > 0 {
		vs.add("networking.inbound", "inbound cannot be defined for "+kind+" gateways")
	}
	const path = "networking.gateway.tags"
	if n.Gateway.Tags.Service() == "" {
		vs.add(path, textServiceTag)
	}
	if p, ok := n.Gateway.Tags[TagProtocol]; ok && p != ProtocolTCP {
		vs.add(keyed(path, TagProtocol), fmt.Sprintf("other values than tcp are not allowed, provided value %q", p))
	}
	vs.join(ValidateTags(path, n.Gateway.Tags))
}

func (vs *violations) address(path, address string) {
	ip, err := netip.ParseAddr(address)
	switch {
	case address == "":
		vs.add(path, "address can't be empty")
	case err == nil && ip.IsUnspecified():
		vs.add(path, "must not be 0.0.0.0 or ::")
	case err == nil && ip.Zone() == "":
	case len(address) > 253 || !dnsName.MatchString(address) || hostname.EndsInNumber(address):
		vs.add(path, "address has to be valid IP address or domain name")
	}
}

func (vs *violations) port(path string, port uint32) {
	if port < 1 || port > 65535 {
		vs.add(path, textPort)
	}
}

// isIP reports whether s is an IP address without a zone, as Envoy requires.
func isIP(s string) bool {
	ip, err := netip.ParseAddr(s)
	return err == nil && ip.Zone() == ""
}

func (vs *violations) inbound(path string, in *Inbound, address string) {
	vs.port(path+".port", in.Port)
	if in.ServicePort != 0 {
		vs.port(path+".servicePort", in.ServicePort)
	}
	samePort := in.ServicePort == 0 || in.ServicePort == in.Port
	if in.ServiceAddress != "" {
		if !isIP(in.ServiceAddress) {
			vs.add(path+".serviceAddress", "serviceAddress has to be valid IP address")
		}
		if in.ServiceAddress == address && samePort {
			vs.add(path+".serviceAddress", textDiffer)
		}
	}
	if in.Address != "" {
		if !isIP(in.Address) {
			vs.add(path+".address", "address has to be valid IP address")
		}
		if in.Address == in.ServiceAddress && samePort {
			vs.add(path+".serviceAddress", textDiffer)
		}
	}
	vs.inboundTags(path+".tags", in.Tags)
	vs.serviceProbe(path+".serviceProbe", in.ServiceProbe)
}

// sockets refuses two inbounds on one port. Only the first could listen, and calls for the
// other would reach it.
func (vs *violations) sockets(n *Networking) {
	for i := range n.Inbound {
		b := &n.Inbound[i]
		j := slices.IndexFunc(n.Inbound[:i], func(a Inbound) bool {
			return a.Port == b.Port && overlap(or(a.Address, n.Address), or(b.Address, n.Address))
		})
		if j >= 0 && b.Port != 0 {
			vs.add(indexed("networking.inbound", i)+".port", fmt.Sprintf("%s listens on port %d of the same address", indexed("networking.inbound", j), b.Port))
		}
	}
}

// overlap reports whether sockets on one port at two addresses conflict.
func overlap(a, b string) bool {
	x, err := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	if err != nil || err2 != nil {
		return a == b
	}
	return x.Unmap() == y.Unmap() || x.IsUnspecified() || y.IsUnspecified()
}

func (vs *violations) inboundTags(path string, tags Tags) {
	if _, ok := tags[TagService]; !ok {
		vs.add(keyed(path, TagService), "tag has to exist")
	}
	vs.protocol(path, tags)
	vs.join(ValidateTags(path, tags))
}

func (vs *violations) outbound(path string, o *Outbound) {
	vs.port(path+".port", o.Port)
	if o.Address != "" && !isIP(o.Address) {
		vs.add(path+".address", "address has to be valid IP address")
	}
	if o.BackendRef != nil {
		vs.add(path+".backendRef", textNoBackendRef)
		return
	}
	tags := o.EffectiveTags()
	if _, ok := tags[TagService]; !ok {
		vs.add(path+".tags", textServiceTag)
	}
	vs.join(ValidateTags(path+".tags", tags))
}

// transparent refuses what no proxy does. Empty lists ask for nothing.
func (vs *violations) transparent(path string, tp *TransparentProxying) {
	if tp == nil {
		return
	}
	vs.directAccess(path+".directAccessServices", tp.DirectAccessServices)
	if tp.ReachableBackends != nil {
		vs.add(path+".reachableBackends", textNoBackends)
	}
}

// maxDirectAccess is how many services a dataplane names for direct access.
const maxDirectAccess = 1000

// directAccess refuses what is the name of no service.
func (vs *violations) directAccess(path string, services []string) {
	if len(services) > maxDirectAccess {
		vs.add(path, fmt.Sprintf("must have at most %d elements", maxDirectAccess))
		return
	}
	for i, s := range services {
		switch at := indexed(path, i); {
		case s == AnyValue:
		case s == "":
			vs.add(at, textEmptyValue)
		case len(s) > maxTag:
			vs.add(at, textLongTag)
		case !tagValue.MatchString(s):
			vs.add(at, textTagValue)
		}
	}
}

// crossDataplane checks the constraints that the mesh has for its members.
func crossDataplane(g model.Getter, _, r *model.Resource) ([]fault.Violation, error) {
	res, err := g.Get(Meshes, "", r.Scope)
	if err != nil {
		return nil, err
	}
	m := res.Spec.(*Mesh)
	if m.Constraints == nil || m.Constraints.DataplaneProxy == nil {
		return nil, nil
	}
	rules := m.Constraints.DataplaneProxy
	var vs violations
	for _, tags := range r.Spec.(*Dataplane).TagSets() {
		matches := func(rule TagRule) bool { return Matches(rule.Tags, tags) }
		var refusal string
		switch {
		case len(rules.Requirements) > 0 && !slices.ContainsFunc(rules.Requirements, matches):
			refusal = "does not fulfill any requirements defined on the Mesh"
		case slices.ContainsFunc(rules.Restrictions, matches):
			refusal = "matches restricted tags"
		default:
			continue
		}
		vs.add("networking", fmt.Sprintf("dataplane cannot be a member of mesh %q because its tags %q %s", r.Scope, tags.String(), refusal))
	}
	return vs, nil
}
