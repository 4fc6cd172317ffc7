package mesh

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Types of proxies of zones. They belong to no mesh.
const (
	ProxyIngress = "ingress"
	ProxyEgress  = "egress"
)

// Zonal is the spec of a proxy of a zone.
type Zonal interface {
	// In reports whether it is in a zone. own is the zone of the control plane.
	In(zone, own string) bool
	// Listens returns where its proxy listens.
	Listens() (address string, port uint32)
	// Administered returns where the administration of its Envoy is, nil if it does not say so.
	Administered() *Admin
	// Adopt takes what the control plane writes from the spec that is stored, nil if there is
	// none. What a proxy said of it counts for nothing.
	Adopt(stored Zonal)
	// SetLabels and GetLabels are those of every document.
	SetLabels(labels map[string]string)
}

// ZoneKind returns the kind of the resources of the proxies of a type, nil if there are no such
// proxies of zones.
func ZoneKind(proxyType string) *model.Kind {
	switch proxyType {
	case ProxyIngress:
		return ZoneIngresses
	case ProxyEgress:
		return ZoneEgresses
	}
	return nil
}

// ZoneProxyOf returns the type of the proxies of a kind of resources, empty if these are none of
// zones.
func ZoneProxyOf(kind string) string {
	for _, t := range ZoneProxies {
		if ZoneKind(t).Name == kind {
			return t
		}
	}
	return ""
}

// ZoneProxies are the types of proxies of zones.
var ZoneProxies = [...]string{ProxyIngress, ProxyEgress}

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
	return proxyType, name, ok && ZoneKind(proxyType) != nil && name != "" && !strings.Contains(name, "/")
}
