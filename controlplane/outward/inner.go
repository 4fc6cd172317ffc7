package outward

import (
	"net/netip"
	"slices"

	"github.com/meshgate/meshgate/controlplane/hostname"
)

// The networks whose addresses have others in them, which a gateway on the way connects to.
var (
	// nat64 is the well-known prefix (RFC 6052), with an IPv4 address in the last 32 bits.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// nat64Local is for translators of a network (RFC 8215), which choose a prefix in it of 48 to 96
	// bits. Where the address is depends on that.
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	// sixToFour has an address in bits 16 to 47 (RFC 3056).
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// inner returns the addresses that a gateway may take an address for, in their plain form.
func inner(a netip.Addr) (list []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	four := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case nat64.Contains(a):
		return []netip.Addr{four(12, 13, 14, 15)}
	case nat64Local.Contains(a): // prefixes of 48, 56, 64 and 96 bits; bits 64 to 71 are left out
		return []netip.Addr{four(6, 7, 9, 10), four(7, 9, 10, 11), four(9, 10, 11, 12), four(12, 13, 14, 15)}
	case sixToFour.Contains(a):
		return []netip.Addr{four(2, 3, 4, 5)}
	}
	return nil
}

// reserved reports whether a cloud gives credentials at an address that is not allowed as itself. Who
// allows a private network does not think of the addresses in it that a cloud has taken.
func (o *Options) reserved(a netip.Addr) bool {
	return hostname.IsMetadata(a) && !slices.ContainsFunc(o.Allowed, func(p netip.Prefix) bool {
		own := netip.PrefixFrom(a, a.BitLen())
		return p == own || p.Addr().Is4In6() && p.IsSingleIP() && p.Addr().Unmap() == a
	})
}
