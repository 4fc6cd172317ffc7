package transparent

import (
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// These are the ports that proxies listen on by default.
const (
	DefaultOutbound = 15001
	DefaultInbound  = 15006
	DefaultDNS      = 15053
)

// Options say what is redirected.
type Options struct {
	// Proxy is the user that the proxy and its agent run as. What they send is not redirected,
	// because it would come back to them for ever. It is not root: everything that runs as root
	// would bypass the proxy.
	Proxy uint32
	// Outbound and Inbound are the ports of the proxy. 0 redirects nothing in that direction.
	Outbound, Inbound uint16
	// DNS is the port that answers questions for names, by UDP and TCP. With 0 they are not
	// redirected.
	DNS uint16
	// NotOutbound and NotInbound are ports of connections that are left alone.
	NotOutbound, NotInbound []Range
	// NotUsers are users whose connections are left alone, besides the proxy's.
	NotUsers []Range
	// NotTo are networks to which connections are left alone.
	NotTo []netip.Prefix
	// IPv6 redirects connections of both families, and not those of IPv4 alone.
	IPv6 bool
}

// Range is a range of ports or users, both ends included.
type Range struct{ From, To uint32 }

// maxEntries bounds the entries of each list, each of which is a rule that every new connection
// passes.
const maxEntries = 256

// Check returns what is wrong with options. The paths are those of the flags.
func (o *Options) Check() (vs []fault.Violation) {
	add := func(path, text string) { vs = append(vs, fault.Violation{Path: path, Message: text}) }
	if o.Proxy == 0 {
		add("--proxy-user", "must not be root: everything that runs as root would bypass the proxy")
	}
	if o.Outbound == 0 && o.Inbound == 0 && o.DNS == 0 {
		add("--redirect-outbound-port", "nothing would be redirected: name a port here, in --redirect-inbound-port or in --redirect-dns-port")
	}
	if o.Outbound != 0 && o.Outbound == o.Inbound {
		add("--redirect-inbound-port", "must differ from --redirect-outbound-port")
	}
	if o.DNS != 0 && (o.DNS == o.Outbound || o.DNS == o.Inbound) {
		add("--redirect-dns-port", "must differ from the other ports")
	}
	for _, list := range []struct {
		path string
		n    int
	}{
		{"--exclude-outbound-ports", len(o.NotOutbound)}, {"--exclude-inbound-ports", len(o.NotInbound)},
		{"--exclude-users", len(o.NotUsers)}, {"--exclude-networks", len(o.NotTo)},
	} {
		if list.n > maxEntries {
			add(list.path, "must have at most 256 entries: use ranges")
		}
	}
	return vs
}
