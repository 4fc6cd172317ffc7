package agent

import (
	"path/filepath"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
)

// machine returns the files and addresses that configuration may lead to, and the one filter
// that it may have. Only sidecars have workloads.
func (a *Agent) machine() machine.Bounds {
	library, mode := "", a.Filter
	if mode == contract.ModeGolang {
		library = filepath.Join(a.ModuleDir, contract.GolangLibrary)
	}
	return machine.Bounds{
		Library: library, Mode: &mode,
		AccessLog: a.AccessLog.Path, Roots: a.systemRoots(), Admin: uint16(a.AdminPort), Status: a.statusPort, //nolint:gosec // checked by Render
		Workloads: a.Sidecar != nil, Elsewhere: a.Sidecar != nil && a.Sidecar.ZoneType != "", Allowed: a.WorkloadAddresses,
	}
}
