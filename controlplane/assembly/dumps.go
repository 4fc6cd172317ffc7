package assembly

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/inspect"
)

// openDumps makes the source of dumps of nodes. All APIs share it, so that its limits hold
// for all of them together.
func (cp *ControlPlane) openDumps() {
	cp.dumps = inspect.NewDumps(inspect.DumpOptions{
		Ask:      cp.mesh.admin.Ask,
		Unlinked: func(err error) bool { return errors.Is(err, adminlink.ErrNotConnected) },
		Last:     cp.loop.Last, Desired: cp.loop.Desired, Node: cp.nodes.Get,
	})
}
