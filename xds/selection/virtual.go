package selection

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// virtualPort is the port of services at their virtual addresses.
const virtualPort = 80

// virtualAddress returns the address by which transparent proxies know a service. It is in
// 240.0.0.0/4, which nobody routes. It is derived from the name, so it is the same on every
// replica and after every restart without being stored.
func virtualAddress(service string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(service))
	n := h.Sum32()
	n ^= n >> 15 // FNV's high bits depend little on the last letters
	n *= 0x2c1b3c6d
	n ^= n >> 12
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 240<<24|n&0x0fffffff)
	return netip.AddrFrom4(a).String()
}

// distinct moves an outbound whose address is taken to the next free address. The outbounds
// are ordered by service, so the result depends only on the set of services.
func distinct(out []Outbound) []Outbound {
	taken := make(map[string]bool, len(out))
	for i := range out {
		a := netip.MustParseAddr(out[i].Address)
		for taken[a.String()] {
			if a = a.Next(); !a.IsValid() || a.As4() == [4]byte{255, 255, 255, 255} {
				a = netip.AddrFrom4([4]byte{240, 0, 0, 1})
			}
		}
		out[i].Address = a.String()
		taken[out[i].Address] = true
	}
	return out
}
