package sidecar

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// alone makes Envoy listen as the only one at an address (Listener.enable_reuse_port). Otherwise
// two proxies of a machine that have the same port by mistake would share its connections, and
// none of them would say so. Envoy refuses a listener of which this changes.
func alone() *wrapperspb.BoolValue { return wrapperspb.Bool(false) }

// sockets is a set of addresses where something listens.
type sockets map[netip.AddrPort]bool

// has reports whether a port is taken at an address, by a listener there or by one on all
// addresses. If the address is unspecified, a listener on any address counts.
func (s sockets) has(at netip.AddrPort) bool {
	if len(s) == 0 {
		return false
	}
	if s[at] || s[netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())] || s[netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())] {
		return true
	}
	if at.Addr().IsUnspecified() {
		for other := range s {
			if other.Port() == at.Port() {
				return true
			}
		}
	}
	return false
}

// ports lists the ports that are taken at any address, ordered.
func (s sockets) ports() []uint16 {
	var out []uint16
	for at := range s {
		out = append(out, at.Port())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// servedAt reports whether the workload listens on a port of the proxy's host.
func (s *inboundShape) servedAt(port uint16) bool {
	a, err := netip.ParseAddr(s.WorkloadAddress)
	return s.WorkloadPort == uint32(port) && err == nil && a.IsLoopback()
}

// addressOf parses the address where something is to listen.
func addressOf(address string, port uint32) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(address)
	if err != nil || port == 0 || port > math.MaxUint16 {
		return netip.AddrPort{}, fmt.Errorf("cannot listen on %s", hostPort(address, port))
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), nil
}
