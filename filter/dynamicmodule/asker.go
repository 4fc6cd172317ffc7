package main

import (
	"hash/maphash"
	"net/netip"

	"github.com/meshgate/meshgate/filter/tokencache"
)

// askerSeed keeps clients from choosing addresses that count as another's.
var askerSeed = maphash.MakeSeed()

// sourceOf says on whose behalf a look-up is made. text is Envoy's source.address:
// an address with a port, or something else, which then stands for itself. The
// last 64 bits of an IPv6 address are the client's own choice (RFC 4291 section
// 2.5.4) and do not count.
func sourceOf(text []byte) tokencache.Source {
	s := tokencache.Source{Connection: maphash.Bytes(askerSeed, text)}
	at, err := netip.ParseAddrPort(string(text))
	if err != nil {
		s.Address = s.Connection
		return s
	}
	bits := 32
	if ip := at.Addr().Unmap(); ip.Is6() {
		bits = 64
	}
	network, err := at.Addr().Unmap().WithZone("").Prefix(bits)
	if err != nil { // these lengths are always possible
		return s
	}
	s.Address = maphash.Comparable(askerSeed, network)
	return s
}
