package lifecycle

import (
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Whole says what all hooks of this package need. All fields are required.
type Whole struct {
	Options
	// Limits is the kind of limits that [Limits] is about.
	Limits *model.Kind
	// Online and Global are those of [Zones].
	Online func(zone string) bool
	Global bool
}

// Hook lets a gate keep the whole of what this package knows of lives. Whoever writes documents for
// operators uses such a gate; with some of the hooks alone it stores what the others would refuse.
func Hook(gate *admit.Gate, w Whole) {
	gate.Hook(mesh.Meshes, New(w.Options))
	gate.Hook(mesh.Secrets, Secrets())
	gate.Hook(mesh.ExternalServices, Externals())
	gate.Hook(mesh.ExternalServices, LimitedExternals(w.Limits))
	gate.Hook(w.Limits, Limits(w.Limits))
	gate.Hook(mesh.Zones, Zones(w.Online, w.Global))
}
