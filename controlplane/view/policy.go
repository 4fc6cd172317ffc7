package view

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Policy is one policy resource in a view. It is immutable; a changed resource
// is a new Policy, so that pointers tell whether anything changed.
type Policy struct {
	Kind    *model.Kind
	Name    string
	Created time.Time
	// Version counts the writes of the resource.
	Version uint64
	// Spec implements model.Selecting.
	Spec any
	// Sources and Destinations are the tag sets that it selects; Sources is nil
	// for policies that have none.
	Sources      []mesh.Tags
	Destinations []mesh.Tags
}
