package agent

import (
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// zoneProxy is an ingress or egress of a zone. It runs like the proxy of a Dataplane.
type zoneProxy struct{ sidecar }

func (z zoneProxy) node() string { return mesh.ZoneNodeID(z.Sidecar.ZoneType, z.Name) }
func (z zoneProxy) dir() string  { return ZoneDir(z.Sidecar.ZoneType, z.Name) }

// ZoneDir returns the name of the run directory of a proxy of a zone. No mesh has the mark in its
// name.
func ZoneDir(proxyType, name string) string { return "zone~" + proxyType + "." + name }

func (z zoneProxy) enrol(ctx context.Context, client *http.Client, token string) (*enrol.Answer, error) {
	return z.join(ctx, client, token, z.Sidecar.ZoneType)
}

func (z zoneProxy) withdraw(ctx context.Context, client *http.Client, token string) error {
	if z.Sidecar.Dataplane == "" {
		return nil // the operator manages the resource
	}
	if r := z.relay.Load(); r != nil && z.Sidecar.ZoneType == mesh.ProxyEgress {
		r.Part(ctx) // an egress is deregistered now, and would be turned away
	}
	return enrol.WithdrawZone(ctx, client, z.Address, token, z.Sidecar.ZoneType, z.Name, z.instance)
}

func (z zoneProxy) bootstrap(answer *enrol.Answer) ([]byte, error) {
	return z.described(z.node(), answer)
}
