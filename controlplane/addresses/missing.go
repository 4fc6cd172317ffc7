package addresses

import (
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// Missing returns the host names of a mesh that have no address yet, in the order in which they
// will get one.
func Missing(m *view.Mesh) (out []string) {
	names := selection.NamesOf(m)
	for _, host := range names.Hosts() {
		if _, ok := m.Address(host); !ok {
			out = append(out, host)
		}
	}
	return out
}
