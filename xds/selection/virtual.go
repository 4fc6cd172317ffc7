package selection

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// virtualPort is the port of services at their virtual addresses.
const virtualPort = 80

// virtualAddress is the address by which transparent proxies know a service: in
// 240.0.0.0/4, which nobody routes, made from the name, so that it is the same on
// every replica and after every restart without being stored.
func virtualAddress(service string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(service))
	n := h.Sum32()
	n ^= n >> 15 // FNV's high bits change little with the last letters
	n *= 0x2c1b3c6d
	n ^= n >> 12
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 240<<24|n&0x0fffffff)
	return netip.AddrFrom4(a).String()
}

// distinct moves outbounds of which the address is taken to the next free one.
// The order is that of the services, so the outcome depends on their set alone.
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
