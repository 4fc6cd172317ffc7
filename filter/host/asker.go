package host

import (
	"hash/maphash"
	"net/netip"

	"github.com/meshgate/meshgate/filter/tokencache"
)

// askerSeed prevents clients from choosing addresses whose hash collides with another one.
var askerSeed = maphash.MakeSeed()

// AskerOf says on whose behalf a look-up is made, so that clients take fair turns. text is
// Envoy's source.address: an address with a port. Any other text is an asker of its own. The
// last 64 bits of an IPv6 address are the client's own choice (RFC 4291 section 2.5.4) and
// do not count.
func AskerOf(text []byte) tokencache.Asker {
	s := tokencache.Asker{Connection: maphash.Bytes(askerSeed, text)}
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
	if err != nil { // not possible with these lengths
		return s
	}
	s.Address = maphash.Comparable(askerSeed, network)
	return s
}
