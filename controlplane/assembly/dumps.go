package assembly

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/inspect"
)

// openDumps makes the place that says what nodes have. It is one for all APIs, so that
// its bounds hold for them together.
func (cp *ControlPlane) openDumps() {
	cp.dumps = inspect.NewDumps(inspect.DumpOptions{
		Ask:      cp.mesh.admin.Ask,
		Unlinked: func(err error) bool { return errors.Is(err, adminlink.ErrNotConnected) },
		Last:     cp.loop.Last, Node: cp.nodes.Get,
	})
}
