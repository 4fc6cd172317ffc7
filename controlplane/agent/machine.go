package agent

import "github.com/meshgate/meshgate/xds/machine"

// machine are the files and addresses to which configuration may lead. Only sidecars have
// workloads.
func (a *Agent) machine() machine.Bounds {
	return machine.Bounds{
		AccessLog: a.AccessLog.Path, Roots: systemRoots(), Admin: uint16(a.AdminPort), Status: a.statusPort, //nolint:gosec // checked by Render
		Workloads: a.Sidecar != nil, Allowed: a.WorkloadAddresses,
	}
}
