package hostname

import (
	"net/netip"
	"slices"
)

// metadata are addresses at which clouds give machines their credentials and settings, or serve them
// otherwise. Some of them look like any public address.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // nearly all
	netip.MustParseAddr("169.254.169.253"), // the resolver of EC2
	netip.MustParseAddr("169.254.170.2"),   // containers of ECS
	netip.MustParseAddr("169.254.170.23"),  // pods of EKS
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::253"), netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),                                      // Google
	netip.MustParseAddr("168.63.129.16"),                                     // Azure; a public address
	netip.MustParseAddr("100.100.100.200"),                                   // Alibaba
	netip.MustParseAddr("192.0.0.192"),                                       // Oracle
	netip.MustParseAddr("169.254.42.42"), netip.MustParseAddr("fd00:42::42"), // Scaleway
}

// IsMetadata reports whether a cloud gives machines their credentials at an address.
func IsMetadata(ip netip.Addr) bool { return slices.Contains(metadata, ip.Unmap().WithZone("")) }

// nowhere are addresses that are no other machine's: this network, those that nobody routes (the
// mesh gives them to names), and those in which one of IPv4 is hidden (RFC 6052), whatever it is.
var nowhere = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
}

// IsElsewhere reports whether an address can be that of a service on another machine: it is not
// loopback, link-local, multicast, one of [IsMetadata], or one that nobody routes.
func IsElsewhere(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !IsMetadata(ip) &&
		!slices.ContainsFunc(nowhere, func(p netip.Prefix) bool { return p.Contains(ip) })
}
