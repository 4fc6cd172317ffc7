package insight

import "github.com/meshgate/meshgate/controlplane/mesh"

// Statuses of a proxy.
const (
	Online            = "Online"
	Offline           = "Offline"
	PartiallyDegraded = "PartiallyDegraded"
)

// Status summarises a proxy. It is offline if no stream is open or none of its inbounds is
// ready, and degraded if some are not. Proxies without inbounds are gateways, which count as
// ready.
func Status(d *mesh.Dataplane, in *DataplaneInsight) string {
	if !in.Online() {
		return Offline
	}
	all, down := 0, 0
	if d != nil && d.Networking != nil {
		all = len(d.Networking.Inbound)
		for i := range d.Networking.Inbound {
			if notReady(&d.Networking.Inbound[i]) {
				down++
			}
		}
	}
	switch down {
	case 0:
		return Online
	case all:
		return Offline
	}
	return PartiallyDegraded
}

// notReady reports on the workload. The state Ignored of an inbound says nothing about it.
func notReady(in *mesh.Inbound) bool {
	return in.State == mesh.StateNotReady || (in.Health != nil && !in.Health.Ready)
}
