package mesh

import "net/netip"

// Endpoint is one inbound of a dataplane, or a place that a resource locates, as other
// proxies see it.
type Endpoint struct {
	// Address is an IP address or a DNS name.
	Address string
	Port    uint32
	// Tags of the inbound or of the place.
	Tags Tags
	// Dataplane is the name of the proxy it belongs to, empty for what a resource locates.
	Dataplane string
	// Ingress is the name of the ingress of another zone that leads to the service, and
	// Instances how many instances are behind it. Both are empty for all other endpoints.
	Ingress   string
	Instances uint32
	// Ready endpoints receive traffic. The others tell the protocol of the service while none
	// is ready.
	Ready bool
}

// Source returns what brings the endpoint: no dataplane is called as an ingress is here.
func (e *Endpoint) Source() string {
	if e.Ingress != "" {
		return "ingress/" + e.Ingress
	}
	return e.Dataplane
}

// IsIP reports whether the address is an IP address.
func (e *Endpoint) IsIP() bool { _, err := netip.ParseAddr(e.Address); return err == nil }
