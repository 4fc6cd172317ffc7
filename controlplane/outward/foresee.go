package outward

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/meshgate/meshgate/controlplane/hostname"
)

// Foresee returns why no request to a URL would be sent, as far as that is known without a resolver: its host is
// written as an address, or is localhost. Whoever saves such a URL then learns of it at once, and not from a
// delivery that fails. It allows nothing: each connection is judged by the same rules.
func (o *Options) Foresee(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return nil // other rules say what a URL is
	}
	port, judge := uint16(80), o.named()
	switch u.Scheme {
	case "http":
	case "https":
		port, judge = 443, o.safe()
	default:
		return nil
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(n)
	}
	list, known := literal(u.Hostname())
	if !known {
		return nil
	}
	err = ErrNotAllowed
	for _, ip := range list {
		if err = judge(plain(netip.AddrPortFrom(ip, port))); err == nil {
			return nil // connections try each
		}
	}
	return err
}

// plain is an address without what leads to the same place.
func plain(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// maxHost bounds a host: no name is longer (RFC 1035), apart from the dot at its end.
const maxHost = 253

// literal returns the addresses that a host means by itself, and whether it does. A host that can be no name, and
// is no address either, means none.
func literal(host string) (list []netip.Addr, known bool) {
	if len(strings.TrimSuffix(host, ".")) > maxHost {
		return nil, true // what is asked next takes time that grows with the square of the length
	}
	// HTTP clients do so, and then there are digits and dots where there were others.
	if ascii, err := idna.Lookup.ToASCII(host); err == nil && ascii != "" {
		host = ascii
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, true
	}
	switch {
	case host == "localhost", strings.HasSuffix(host, ".localhost"): // RFC 6761 section 6.3
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true
	case hostname.EndsInNumber(host):
		if ip, ok := loose(host); ok {
			list = append(list, ip)
		}
		return list, true
	}
	return nil, false
}

// loose reads an address as inet_aton does, and with it the resolvers of many systems: up to four numbers, each
// decimal, octal or hexadecimal, the last of which fills what is left.
func loose(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, part := range parts {
		digits, base := part, 10
		switch {
		case strings.HasPrefix(part, "0x"):
			digits, base = part[2:], 16
		case len(part) > 1 && part[0] == '0':
			digits, base = part[1:], 8
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(digits, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}
