package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// security is how connections of a mesh are protected.
type security int

const (
	plain security = iota
	permissive
	strict
)

// meshSettings are what of the mesh itself goes into keys.
type meshSettings struct {
	mesh          string
	security      security
	localityAware bool
	passthrough   bool
	// life is how long certificates are good, and with them the connections that
	// they have proved. withdrawn counts the roots that were taken away.
	life      time.Duration
	withdrawn uint64
}

// minLife keeps connections for a while where certificates are changed all the
// time.
const minLife = time.Minute

// meshSettingsOf reads a mesh. One that does not exist is as strict as can be: it has
// no authority, so nothing connects.
func meshSettingsOf(m *view.Mesh) meshSettings {
	f := meshSettings{mesh: m.Name(), security: strict}
	spec := m.Spec()
	if spec == nil {
		return f
	}
	switch a := spec.Spec.Authority(); {
	case a == nil:
		f.security = plain
	case a.Mode == mesh.ModePermissive:
		f.security = permissive
	}
	if a := spec.Spec.Authority(); a != nil {
		life, err := a.LeafLife()
		if err != nil { // nothing is signed by such an authority
			life = mesh.DefaultLeafLife
		}
		f.life = max(life, minLife)
		if t := m.Trust(); t != nil {
			f.withdrawn = t.Spec.Withdrawn
		}
	}
	f.localityAware = spec.Spec.Routing != nil && spec.Spec.Routing.LocalityAwareLoadBalancing
	f.passthrough = true
	if n := spec.Spec.Networking; n != nil && n.Outbound != nil && n.Outbound.Passthrough != nil {
		f.passthrough = *n.Outbound.Passthrough
	}
	return f
}

// Generation tells certificates apart that must not be mixed up: another issuer, as
// [mesh.Trust] names it, or other tag sets, in any order, make another generation. A set
// wants the identity of its proxy in one of them.
func Generation(issuer string, sources []mesh.Tags) string {
	names := make([]string, 0, len(sources))
	for _, t := range sources {
		names = append(names, t.String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(issuer + "\n" + strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:8])
}
