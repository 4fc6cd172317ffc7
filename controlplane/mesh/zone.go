package mesh

import "github.com/meshgate/meshgate/controlplane/model"

// Zone is the spec of a zone: the area of one control plane and its proxies (requirement
// "Zone"). The zone of this control plane exists from the start.
type Zone struct {
	model.Labelled
	// Enabled is true if it is absent. It is shown as it was written.
	Enabled *bool `json:"enabled,omitempty"`
}

// IsEnabled reports whether a zone takes part. A zone that is switched off is not active,
// whatever its control plane does.
func (z *Zone) IsEnabled() bool { return z.Enabled == nil || *z.Enabled }

// DefaultZone is the name of the zone of a control plane for which none is set.
const DefaultZone = "default"

// Zones describes the resources. They have nothing that could be wrong.
var Zones = model.Describe(Zone{}, model.Kind{
	Name: "zone", Path: "zones", Scoping: model.Global, Class: model.Config,
	Document: &model.Document{Type: "Zone", Singular: "Zone", Plural: "Zones", Written: model.ByEach},
})
