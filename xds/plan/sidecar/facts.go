package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// security says how connections of a mesh are protected.
type security int

const (
	plain security = iota
	permissive
	strict
)

// meshSettings are the settings of the mesh that are parts of keys.
type meshSettings struct {
	mesh          string
	security      security
	localityAware bool
	passthrough   bool
	// life is how long certificates are valid, and thus the connections that they have
	// authenticated. withdrawn counts the removed roots.
	life      time.Duration
	withdrawn uint64
	// metrics says, in JSON, how proxies are scraped; empty if they are not.
	metrics string
	// through says that other zones are called through the egresses of the own one, and egresses
	// where these are.
	through  bool
	egresses string
}

// minLife is the minimum life of connections, for meshes with very short-lived certificates.
const minLife = time.Minute

// meshSettingsOf reads a mesh. A mesh that does not exist is as strict as possible: it has no
// authority, so nothing connects.
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
		if err != nil { // such an authority signs nothing
			life = mesh.DefaultLeafLife
		}
		f.life = max(life, minLife)
		if t := m.Trust(); t != nil {
			f.withdrawn = t.Spec.Withdrawn
		}
	}
	f.localityAware = spec.Spec.Routing != nil && spec.Spec.Routing.LocalityAwareLoadBalancing
	if f.through = m.ThroughEgress(); f.through {
		f.egresses = egresses(m)
	}
	f.metrics = metricsOf(spec.Spec)
	f.passthrough = true
	if n := spec.Spec.Networking; n != nil && n.Outbound != nil && n.Outbound.Passthrough != nil {
		f.passthrough = *n.Outbound.Passthrough
	}
	return f
}

func metricsOf(m *mesh.Mesh) string {
	if m.Metrics == nil || m.Metrics.EnabledBackend == "" {
		return ""
	}
	text, err := json.Marshal(m.Metrics)
	if err != nil { // it was decoded from JSON
		panic(err)
	}
	return string(text)
}

// Generation distinguishes certificates that must not be confused. Another issuer, as
// [mesh.Trust] names it, or another set of tags, in any order, makes another generation. The
// set of a proxy wants the identity in one generation.
func Generation(issuer string, sources []mesh.Tags) string {
	names := make([]string, 0, len(sources))
	for _, t := range sources {
		names = append(names, t.String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(issuer + "\n" + strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:8])
}
