package policy

import (
	"fmt"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Texts of violations that several policies share (mesh API, validation).
const (
	TextDefined      = "has to be defined"
	TextPositive     = "has to be greater than 0"
	TextPositiveIf   = "has to be greater than 0 when defined"
	TextPercentRange = "has to be in [0.0 - 100.0] range"
)

// Violations collects what is wrong with a spec, in the order of validation.
type Violations []fault.Violation

// Add records a violation.
func (v *Violations) Add(path, format string, args ...any) {
	*v = append(*v, fault.Violation{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Positive demands that a span be longer than nothing, if it is given.
func (v *Violations) Positive(path string, d *mesh.Duration) {
	if d != nil && *d <= 0 {
		v.Add(path, TextPositiveIf)
	}
}

// Percent demands that a number be at most 100, if it is given.
func (v *Violations) Percent(path string, n *uint32) {
	if n != nil && *n > 100 {
		v.Add(path, TextPercentRange)
	}
}
