package agent

import "github.com/meshgate/meshgate/xds/machine"

// machine returns the files and addresses that configuration may lead to. Only sidecars
// have workloads.
func (a *Agent) machine() machine.Bounds {
	return machine.Bounds{
		AccessLog: a.AccessLog.Path, Roots: systemRoots(), Admin: uint16(a.AdminPort), Status: a.statusPort, //nolint:gosec // checked by Render
		Workloads: a.Sidecar != nil, Allowed: a.WorkloadAddresses,
	}
}
