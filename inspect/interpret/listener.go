package interpret

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/resource"
)

// Proxy is an Envoy with the configuration that it holds.
type Proxy struct {
	Set *resource.Set
	// Certificate are the URIs of its own certificate; none if it has none.
	Certificate []string
	// Check decides about requests that the token filter is to check. It is required where
	// there is one.
	Check Check
}

// Listener is a listener of a proxy.
type Listener struct {
	proto *listenerv3.Listener
	// Name is that of the resource.
	Name string
	// Redirects says that the listener takes what the operating system redirects, for any
	// address that has no listener of its own.
	Redirects bool
}

// Find returns the listener that takes a connection to an address, nil if none does: the one at
// the address itself, else the one at all addresses with that port. A transparent proxy of a
// large mesh has many; the error is that of ctx if it ends before.
func (p *Proxy) Find(ctx context.Context, to netip.AddrPort) (*Listener, error) {
	var wide *Listener
	for _, r := range p.Set.All(resource.Listener) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, at, err := decoded(r)
		if err != nil {
			return nil, err
		}
		if at.Port() != to.Port() {
			continue
		}
		switch {
		case at.Addr() == to.Addr():
			return l, nil
		case at.Addr().IsUnspecified() && !l.Redirects:
			wide = l
		}
	}
	return wide, nil
}

// Redirected returns the listener for connections of a workload that the operating system
// redirects; nil if there is none. The error is as with [Proxy.Find].
func (p *Proxy) Redirected(ctx context.Context, outbound bool) (*Listener, error) {
	prefix := "inbound:"
	if outbound {
		prefix = "outbound:"
	}
	for _, r := range p.Set.All(resource.Listener) {
		if len(r.Name) <= len(prefix) || !strings.HasPrefix(r.Name, prefix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, _, err := decoded(r)
		if err != nil {
			return nil, err
		}
		if l.Redirects {
			return l, nil
		}
	}
	return nil, nil //nolint:nilnil // no listener is an answer
}

// Named returns a listener by the name of its resource, nil if there is none.
func (p *Proxy) Named(name string) (*Listener, error) {
	r := p.Set.Get(resource.Listener, name)
	if r == nil {
		return nil, nil //nolint:nilnil // no listener is an answer
	}
	l, _, err := decoded(r)
	return l, err
}

func decoded(r *resource.Resource) (*Listener, netip.AddrPort, error) {
	l := new(listenerv3.Listener)
	if err := proto.Unmarshal(r.Body, l); err != nil {
		return nil, netip.AddrPort{}, unsaid("the listener %s cannot be read", r.Name)
	}
	socket := l.GetAddress().GetSocketAddress()
	at, err := netip.ParseAddrPort(net.JoinHostPort(socket.GetAddress(), strconv.FormatUint(uint64(socket.GetPortValue()), 10)))
	if err != nil {
		return nil, netip.AddrPort{}, unsaid("where the listener %s listens", r.Name)
	}
	return &Listener{proto: l, Name: r.Name, Redirects: l.GetUseOriginalDst().GetValue()}, at, nil
}

// Arrive says what a proxy does with a request that comes by a connection to a listener.
func (p *Proxy) Arrive(l *Listener, c Connection, r *Request) (*Passage, error) {
	if err := understood(l.proto); err != nil {
		return nil, err
	}
	out := &Passage{}
	out.say(Step{Kind: StepListener, Name: l.Name, Text: "the connection is taken by the listener " + l.Name})
	chain, err := l.chain(c)
	if err != nil {
		return nil, err
	}
	if chain == nil {
		out.refuse(StepConnection, l.Name, 0, "the listener has no filter chain for "+c.describe())
		return out, nil
	}
	peer, refused, err := greet(chain, c)
	if err != nil {
		return nil, err
	}
	if refused != "" {
		out.refuse(StepConnection, chain.GetName(), 0, refused)
		return out, nil
	}
	out.say(Step{Kind: StepConnection, Name: chain.GetName(), Text: welcome(c, peer)})
	return out, p.network(out, chain.GetFilters(), c, peer, r)
}

func (c Connection) describe() string {
	if c.TLS {
		return "TLS"
	}
	return "clear text"
}

func welcome(c Connection, peer []string) string {
	switch {
	case len(peer) > 0:
		return "the connection is TLS, and the caller has proved who it is"
	case c.TLS:
		return "the connection is TLS that the proxy does not look into"
	}
	return "the connection is clear text, and nobody has proved who calls"
}

// chain returns the filter chain for a connection: the one for the server name, else that for an
// application protocol, else the one for everybody. Clients are none of those whose addresses are
// trusted. Without an inspector of TLS, Envoy knows of no names and protocols.
func (l *Listener) chain(c Connection) (best *listenerv3.FilterChain, err error) {
	for _, f := range l.proto.GetListenerFilters() {
		if f.GetName() != "envoy.filters.listener.tls_inspector" {
			return nil, unsaid("the listener filter %s is not known", f.GetName())
		}
	}
	most := -1
	for _, chain := range l.proto.GetFilterChains() {
		if err := understood(chain); err != nil {
			return nil, err
		}
		m := chain.GetFilterChainMatch()
		if m != nil {
			if err := understood(m); err != nil {
				return nil, err
			}
		}
		at, got := fitsAddress(m, c.To), fits(m, c)
		if at >= 0 && got >= 0 && at+got > most {
			best, most = chain, at+got
		}
	}
	return best, nil
}

// fitsAddress returns how well a filter chain is for the address that a client connects to, -1 if
// it is not. Envoy looks at the port first, then at the address, then at everything else. An
// address that nobody knows is that of a name outside of the mesh, and none that chains name.
func fitsAddress(m *listenerv3.FilterChainMatch, to netip.AddrPort) (rank int) {
	if port := m.GetDestinationPort(); port != nil {
		if port.GetValue() != uint32(to.Port()) || !to.IsValid() {
			return -1
		}
		rank = 1 << 26
	}
	if len(m.GetPrefixRanges()) == 0 {
		return rank
	}
	longest := -1
	for _, r := range m.GetPrefixRanges() {
		a, _ := netip.ParseAddr(r.GetAddressPrefix())
		bits := int(r.GetPrefixLen().GetValue())
		if netip.PrefixFrom(a, bits).Contains(to.Addr()) {
			longest = max(longest, bits)
		}
	}
	if longest < 0 {
		return -1
	}
	return rank + (longest+1)<<17
}

// fits returns how well a filter chain is for a connection, -1 if it is not.
func fits(m *listenerv3.FilterChainMatch, c Connection) (rank int) {
	if len(m.GetDirectSourcePrefixRanges()) > 0 {
		return -1
	}
	if transport := m.GetTransportProtocol(); transport != "" && (transport == "tls") != c.TLS {
		return -1
	}
	if ps := m.GetApplicationProtocols(); len(ps) > 0 {
		if !slices.ContainsFunc(ps, func(p string) bool { return slices.Contains(c.Protocols, p) }) {
			return -1
		}
		rank = 1
	}
	if len(m.GetServerNames()) == 0 {
		return rank
	}
	named := 0
	for _, name := range m.GetServerNames() {
		switch suffix, wild := strings.CutPrefix(name, "*"); {
		case name == c.ServerName && name != "":
			named = 1 << 16
		case wild && strings.HasSuffix(c.ServerName, suffix) && len(c.ServerName) > len(suffix):
			named = max(named, 2*len(suffix))
		}
	}
	if named == 0 {
		return -1
	}
	return named + rank
}

// greet does the handshake of a chain. It returns the proved names of the peer, or why the
// handshake fails.
func greet(chain *listenerv3.FilterChain, c Connection) (peer []string, refused string, err error) {
	socket := chain.GetTransportSocket()
	if socket == nil {
		return nil, "", nil
	}
	d, err := unpack(socket.GetTypedConfig(), new(tlsv3.DownstreamTlsContext))
	if err != nil {
		return nil, "", err
	}
	demands, err := demandsOf(d.GetCommonTlsContext())
	switch {
	case err != nil:
		return nil, "", err
	case !c.TLS:
		return nil, "the proxy demands TLS, and the caller speaks clear text", nil
	case len(c.Peer) == 0 && d.GetRequireClientCertificate().GetValue():
		return nil, "the proxy demands a certificate of the mesh, and the caller has none", nil
	case len(c.Peer) > 0 && !Fulfilled(demands, c.Peer):
		return nil, "the proxy takes no certificate of this caller", nil
	}
	return c.Peer, "", nil
}

// network runs the network filters of a chain.
func (p *Proxy) network(out *Passage, filters []*listenerv3.Filter, c Connection, peer []string, r *Request) error {
	for _, f := range filters {
		packed := f.GetTypedConfig()
		switch {
		case packed.MessageIs((*hcmv3.HttpConnectionManager)(nil)):
			m, err := unpack(packed, new(hcmv3.HttpConnectionManager))
			if err != nil {
				return err
			}
			return p.http(out, m, peer, r.clone())
		case packed.MessageIs((*tcpv3.TcpProxy)(nil)):
			t, err := unpack(packed, new(tcpv3.TcpProxy))
			if err != nil {
				return err
			}
			return p.tcp(out, t)
		}
		if packed.MessageIs((*limitv3.ConnectionLimit)(nil)) {
			continue // how many others there are is not asked
		}
		if packed.MessageIs((*statev3.Config)(nil)) {
			if err := p.remember(out, packed, c); err != nil {
				return err
			}
			continue
		}
		if err := connectionPermission(out, f, peer); err != nil || out.Reply != nil {
			return err
		}
	}
	return unsaid("the filter chain ends without a proxy")
}
