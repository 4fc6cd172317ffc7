package config

import "net/netip"

// Workload says where the workloads of a proxy may be, in addition to its own machine.
type Workload struct {
	Address string `koanf:"address"`
}

// Networks parses workload.address.
func (w Workload) Networks() ([]netip.Prefix, error) { return networks(w.Address) }
