package assembly

import (
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/version"
)

// zoneOnline reports whether the control plane of a zone is connected. That of the own zone is
// this process. No other control plane connects yet.
func (cp *ControlPlane) zoneOnline(name string) bool { return name == cp.cfg.Zone.Own() }

// ownZone is what is known about the zone of this process: that it runs since it was started.
func ownZone(instance string, started time.Time) *insight.ZoneInsight {
	return &insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{{
		ID: uuid.NewString(), GlobalInstanceID: instance, ZoneInstanceID: instance, ConnectTime: started,
		Version: insight.ZoneVersions{MeshCP: insight.ZoneVersion{Version: version.Program, GlobalCompatible: true}},
	}}}
}
