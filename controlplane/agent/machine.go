package agent

import "github.com/meshgate/meshgate/xds/machine"

// machine are the files and addresses to which configuration may lead. Only gateways have
// an access log, and only sidecars have workloads.
func (a *Agent) machine() machine.Bounds {
	b := machine.Bounds{
		Roots: systemRoots(), Admin: uint16(a.AdminPort), Status: a.statusPort, //nolint:gosec // checked by Render
		Workloads: a.Sidecar != nil, Allowed: a.WorkloadAddresses,
	}
	if a.Sidecar == nil {
		b.AccessLog = a.AccessLog.Path
	}
	return b
}
