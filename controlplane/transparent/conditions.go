package transparent

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The conditions, each as nft prints it and as the kernel takes it (nft(8), "EXPRESSIONS").

// version is true of connections of IPv6, or of IPv4 if it is false.
type version bool

func (v version) text() string {
	if v {
		return "meta nfproto ipv6"
	}
	return "meta nfproto ipv4"
}

func (v version) exprs() []expr.Any {
	is := byte(unix.NFPROTO_IPV4)
	if v {
		is = unix.NFPROTO_IPV6
	}
	return []expr.Any{meta(expr.MetaKeyNFPROTO), equal([]byte{is})}
}

// protocol is true of connections by a transport.
type protocol byte

const (
	tcp protocol = unix.IPPROTO_TCP
	udp protocol = unix.IPPROTO_UDP
)

func (p protocol) name() string {
	if p == tcp {
		return "tcp"
	}
	return "udp"
}

func (p protocol) text() string { return "meta l4proto " + p.name() }

func (p protocol) exprs() []expr.Any {
	return []expr.Any{meta(expr.MetaKeyL4PROTO), equal([]byte{byte(p)})}
}

// ports is true of connections to some ports. It follows a condition for its transport.
type ports struct {
	by protocol
	Range
}

func (p ports) text() string { return p.by.name() + " dport " + p.Range.String() }

func (p ports) exprs() []expr.Any {
	// The port of the destination is the second half of the first word of both transports.
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	return append([]expr.Any{load}, p.within(func(n uint32) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) })...) //nolint:gosec // a port
}

// opener is true of connections that some users of this machine have opened.
type opener struct{ Range }

func (u opener) text() string { return "meta skuid " + u.Range.String() }

func (u opener) exprs() []expr.Any {
	out := []expr.Any{meta(expr.MetaKeySKUID)}
	if u.From != u.To {
		// Ranges are compared byte by byte.
		out = append(out, &expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4})
		return append(out, u.within(binaryutil.BigEndian.PutUint32)...)
	}
	return append(out, u.within(binaryutil.NativeEndian.PutUint32)...)
}

// String is a range as nft reads it.
func (r Range) String() string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// within compares what was loaded with a range.
func (r Range) within(bytes func(uint32) []byte) []expr.Any {
	if r.From == r.To {
		return []expr.Any{equal(bytes(r.From))}
	}
	return []expr.Any{&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: bytes(r.From), ToData: bytes(r.To)}}
}

// loopback is true of connections that stay on this machine, as a hook sees them.
type loopback struct{ at Hook }

func (l loopback) text() string {
	if l.at == Output {
		return `oifname "lo"`
	}
	return `iifname "lo"`
}

func (l loopback) exprs() []expr.Any {
	key := expr.MetaKeyIIFNAME
	if l.at == Output {
		key = expr.MetaKeyOIFNAME
	}
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return []expr.Any{meta(key), equal(name)}
}

// notHere is true of connections to addresses that are not this machine's own.
type notHere struct{}

func (notHere) text() string { return "fib daddr type != local" }

func (notHere) exprs() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// source and destination are true of connections from and to a network. They follow a version.
type (
	source      netip.Prefix
	destination netip.Prefix
)

func (s source) text() string { return address(netip.Prefix(s)) + " saddr " + network(netip.Prefix(s)) }
func (d destination) text() string {
	return address(netip.Prefix(d)) + " daddr " + network(netip.Prefix(d))
}

func (s source) exprs() []expr.Any      { return inNetwork(netip.Prefix(s), 12, 8) }
func (d destination) exprs() []expr.Any { return inNetwork(netip.Prefix(d), 16, 24) }

func address(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "ip6"
	}
	return "ip"
}

func network(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Masked().String()
}

// inNetwork compares an address with a network. The offsets are those of the address in the
// headers of both versions.
func inNetwork(p netip.Prefix, at4, at6 uint32) []expr.Any {
	addr, at := p.Masked().Addr().AsSlice(), at4
	if p.Addr().Is6() {
		at = at6
	}
	n := uint32(len(addr)) //nolint:gosec // 4 or 16
	out := []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: n}}
	if !p.IsSingleIP() {
		mask := make([]byte, n)
		for bit := range p.Bits() {
			mask[bit/8] |= 0x80 >> (bit % 8)
		}
		out = append(out, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: n, Mask: mask, Xor: make([]byte, n)})
	}
	return append(out, equal(addr))
}

// not is true where a condition is not that ends with a comparison.
type not struct{ destination }

func (n not) text() string {
	return strings.Replace(n.destination.text(), " daddr ", " daddr != ", 1)
}

func (n not) exprs() []expr.Any {
	out := n.destination.exprs()
	last, _ := out[len(out)-1].(*expr.Cmp)
	last.Op = expr.CmpOpNeq
	return out
}

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: 1} }

func equal(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
