package mesh

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Address is the spec of the address of one host name of a mesh, by which transparent proxies
// know the name. The name of the resource is the host name. The control plane keeps it as long
// as the name may be in use; it is not part of an API.
type Address struct {
	// Address is an IPv4 address of [Virtual].
	Address string `json:"address"`
	// Unused is since when it is known that nothing has the name, zero while that is not
	// looked at.
	Unused time.Time `json:"unused,omitzero"`
	// Holders are what VirtualOutbounds gave the name to first, by port.
	Holders map[uint32]Holder `json:"holders,omitempty"`
}

// Holder is what a VirtualOutbound gave a host name and a port to first. As long as the
// VirtualOutbound also gives it to that, nothing else gets it: whoever may register a proxy
// chooses its tags, and could otherwise take the name of another service.
type Holder struct {
	// Tags are the tags of the name, as text.
	Tags string `json:"tags"`
	// Gone is since when it is known that the name leads elsewhere, zero while it does not.
	Gone time.Time `json:"gone,omitzero"`
}

// Addresses are the addresses of the names of meshes. No two names of a mesh have one.
var Addresses = model.Describe(Address{}, model.Kind{
	Name: "mesh_address", Path: "mesh-addresses", Scoping: model.Mesh, Class: model.Config, ReadOnly: true,
	Unique: []model.Index{{Name: IndexAddress, Value: func(spec any) (string, bool) {
		a := spec.(*Address).Address
		return a, a != ""
	}}},
})

// IndexAddress is the index by which a name is found by its address.
const IndexAddress = "address"

// Virtual are the addresses of names. Nobody routes them (RFC 1112 section 4).
var Virtual = netip.PrefixFrom(netip.AddrFrom4([4]byte{240}), 4)

// HostSuffix ends the host names of services.
const HostSuffix = ".mesh"

// ServiceHost returns the host name of a service. It is the key of its address, and no name that
// can be looked up if that of the service is none.
func ServiceHost(service string) string { return service + HostSuffix }

// ServicePort is the port of services at their host names.
const ServicePort = 80

// MaxHolders is how many ports of a host name have a stored holder.
const MaxHolders = 256

// FirstAddress returns the address that a host name gets if it is free. It follows from the
// name, so that nothing changes for proxies whose control plane stored no addresses yet.
func FirstAddress(host string) netip.Addr {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.TrimSuffix(host, HostSuffix)))
	n := h.Sum32()
	n ^= n >> 15 // FNV's high bits depend little on the last letters
	n *= 0x2c1b3c6d
	n ^= n >> 12
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 240<<24|n&0x0fffffff)
	return netip.AddrFrom4(a)
}

// NextAddress returns the address to try after one that is taken.
func NextAddress(a netip.Addr) netip.Addr {
	if a = a.Next(); !a.IsValid() || a.As4() == [4]byte{255, 255, 255, 255} {
		a = netip.AddrFrom4([4]byte{240, 0, 0, 1})
	}
	return a
}

// SortHosts puts host names into the order in which they get addresses.
func SortHosts(hosts []string) {
	slices.SortFunc(hosts, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, HostSuffix), strings.TrimSuffix(b, HostSuffix))
	})
}
