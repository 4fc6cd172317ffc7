package framework

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Redirect has the kernel of this machine send TCP connections from it to an address and a port to
// another port of the loopback address, as the rules of a transparent proxy do. It returns how to
// end that. The error is os.ErrPermission for processes that may not have rules.
//
// The rules are written in the form of nf_tables itself, so that no program is needed.
func Redirect(from netip.AddrPort, to uint16) (end func() error, err error) {
	table := fmt.Sprintf("meshgate_test_%d_%s_%d", os.Getpid(), from.Addr(), from.Port())
	address := from.Addr().As4()
	rule := joined(
		expression("meta", number(nftaMetaKey, unix.NFT_META_L4PROTO), number(nftaMetaDreg, unix.NFT_REG_1)),
		equal([]byte{unix.IPPROTO_TCP}),
		payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 4), equal(address[:]), // the destination in a header of IPv4
		payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2), equal(binary.BigEndian.AppendUint16(nil, from.Port())),
		expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_1), value(unix.NFTA_IMMEDIATE_DATA, binary.BigEndian.AppendUint16(nil, to))),
		expression("redir", number(nftaRedirMin, unix.NFT_REG_1)),
	)
	err = batch(
		message(unix.NFT_MSG_NEWTABLE, text(unix.NFTA_TABLE_NAME, table)),
		message(unix.NFT_MSG_NEWCHAIN,
			text(unix.NFTA_CHAIN_TABLE, table), text(unix.NFTA_CHAIN_NAME, "out"), text(unix.NFTA_CHAIN_TYPE, "nat"),
			nested(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_LOCAL_OUT), number(unix.NFTA_HOOK_PRIORITY, natPriority))),
		message(unix.NFT_MSG_NEWRULE, text(unix.NFTA_RULE_TABLE, table), text(unix.NFTA_RULE_CHAIN, "out"), nested(unix.NFTA_RULE_EXPRESSIONS, rule)),
	)
	return func() error { return batch(message(unix.NFT_MSG_DELTABLE, text(unix.NFTA_TABLE_NAME, table))) }, err
}

// These are attributes of linux/netfilter/nf_tables.h.
const (
	nftaMetaDreg = 1
	nftaMetaKey  = 2
	nftaRedirMin = 1
	// natPriority is -100, where destinations are changed.
	natPriority = 0xffffff9c
)

// padded fills up to a multiple of four bytes.
func padded(b []byte) []byte { return append(b, make([]byte, (4-len(b)%4)%4)...) }

// attribute is an attribute of a netlink message.
func attribute(typ uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return padded(append(b, data...))
}

func text(typ uint16, s string) []byte { return attribute(typ, append([]byte(s), 0)) }

func number(typ uint16, n uint32) []byte {
	return attribute(typ, binary.BigEndian.AppendUint32(nil, n))
}

func nested(typ uint16, parts ...[]byte) []byte {
	return attribute(typ|unix.NLA_F_NESTED, joined(parts...))
}

func value(typ uint16, b []byte) []byte { return nested(typ, attribute(unix.NFTA_DATA_VALUE, b)) }

func joined(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// expression is one step of a rule.
func expression(name string, parts ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name), nested(unix.NFTA_EXPR_DATA, parts...))
}

// payload loads bytes of a packet, and equal compares what was loaded.
func payload(base, offset, length uint32) []byte {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), number(unix.NFTA_PAYLOAD_BASE, base),
		number(unix.NFTA_PAYLOAD_OFFSET, offset), number(unix.NFTA_PAYLOAD_LEN, length))
}

func equal(b []byte) []byte {
	return expression("cmp", number(unix.NFTA_CMP_SREG, unix.NFT_REG_1), number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ), value(unix.NFTA_CMP_DATA, b))
}

// message is a message about tables of IPv4. Its sequence number is filled in by batch.
func message(typ uint16, parts ...[]byte) []byte {
	return framed(unix.NFNL_SUBSYS_NFTABLES<<8|typ, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE, unix.AF_INET, 0, joined(parts...))
}

func framed(typ, flags uint16, family byte, of uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(20+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = append(b, make([]byte, 8)...) // sequence number and sender
	b = append(b, family, 0)
	b = binary.BigEndian.AppendUint16(b, of)
	return append(b, body...)
}

// batch sends messages that take effect together, and returns what the kernel says of them.
func batch(messages ...[]byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open a socket for rules: %w", err)
	}
	defer func() { _ = unix.Close(s) }()
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	all := framed(unix.NFNL_MSG_BATCH_BEGIN, unix.NLM_F_REQUEST, 0, unix.NFNL_SUBSYS_NFTABLES, nil)
	for i, m := range messages {
		binary.NativeEndian.PutUint32(m[8:], uint32(i+1))
		all = append(all, m...)
	}
	all = append(all, framed(unix.NFNL_MSG_BATCH_END, unix.NLM_F_REQUEST, 0, unix.NFNL_SUBSYS_NFTABLES, nil)...)
	if err := unix.Sendto(s, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send rules: %w", err)
	}
	buffer := make([]byte, 1<<16)
	for answered := 0; answered < len(messages); {
		n, _, err := unix.Recvfrom(s, buffer, 0)
		if err != nil {
			return fmt.Errorf("the answer to rules: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= 20; {
			length := int(binary.NativeEndian.Uint32(rest))
			if binary.NativeEndian.Uint16(rest[4:]) == unix.NLMSG_ERROR {
				code := int32(binary.NativeEndian.Uint32(rest[16:]))
				if errno := unix.Errno(-code); code != 0 {
					if errors.Is(errno, unix.EPERM) {
						return os.ErrPermission
					}
					return fmt.Errorf("the kernel refuses rules: %w", errno)
				}
				answered++
			}
			rest = rest[min(len(rest), (length+3)&^3):]
		}
	}
	return nil
}

// AtDNS returns a resolver that asks one server over a network, udp or tcp.
func AtDNS(network string, port int) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: dialer(network, port)}
}

func dialer(network string, port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
	}
}
