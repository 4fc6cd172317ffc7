package mesh

import "strings"

// Types of proxies of zones. They belong to no mesh. No proxy of the type egress exists yet.
const (
	ProxyIngress = "ingress"
	ProxyEgress  = "egress"
)

// Zonal is the spec of a proxy of a zone.
type Zonal interface {
	// In reports whether it is in a zone. own is the zone of the control plane.
	In(zone, own string) bool
}

// zoneScope begins the ids of proxies of zones. No mesh has a slash in its name.
const zoneScope = "zone/"

// ZoneNodeScope returns what stands before the name in the ids of proxies of a type.
func ZoneNodeScope(proxyType string) string { return zoneScope + proxyType }

// ZoneNodeID returns the id of a proxy of a zone, zone/<type>/<name>.
func ZoneNodeID(proxyType, name string) string { return ZoneNodeScope(proxyType) + "/" + name }

// ParseZoneNode splits the id of a proxy of a zone. It reports whether it is one.
func ParseZoneNode(id string) (proxyType, name string, ok bool) {
	rest, ok := strings.CutPrefix(id, zoneScope)
	if !ok {
		return "", "", false
	}
	proxyType, name, ok = strings.Cut(rest, "/")
	return proxyType, name, ok && proxyType == ProxyIngress && name != "" && !strings.Contains(name, "/")
}
