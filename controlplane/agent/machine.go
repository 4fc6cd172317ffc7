package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/mesh"
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
	var names []hostname.Suffix
	if a.Sidecar != nil && a.Sidecar.ZoneType == mesh.ProxyEgress {
		names = a.ExternalNames
	}
	return machine.Bounds{
		Library: library, Mode: &mode, Trusting: a.trustingPorts,
		AccessLog: a.AccessLog.Path, Roots: a.systemRoots(), Admin: uint16(a.AdminPort), Status: a.statusPort, //nolint:gosec // checked by Render
		Workloads: a.Sidecar != nil, Elsewhere: a.Sidecar != nil && a.Sidecar.ZoneType != "", Names: names, Allowed: a.WorkloadAddresses,
	}
}

// trustingPorts returns the ports of this machine at which the control plane takes whoever is on
// it for an administrator. A gateway may lead there: it speaks HTTP with its upstreams, nobody can
// take Envoy's traces out of the requests, and the control plane trusts no request with them.
func (a *Agent) trustingPorts() []uint16 {
	if at := a.trusting.Load(); at != nil && a.Sidecar != nil {
		return *at
	}
	return nil
}

// lend takes from the control plane which ports of this machine must be lent to nobody, and keeps
// it for a start without the control plane. What the proxy has is judged by them at once: it may have
// started before they were known.
func (a *Agent) lend(t *enrol.Trusting) error {
	ports := t.Here()
	data, err := json.Marshal(ports)
	if err != nil {
		return err
	}
	was := a.trusting.Swap(&ports)
	if at := a.relay.Load(); at != nil && (was == nil || !slices.Equal(*was, ports)) {
		at.JudgeAgain()
	}
	return replace(a.dir.trusting, data)
}

// lentBefore does what lend does, with what the control plane said last. One of the version before
// has said nothing.
func (a *Agent) lentBefore() error {
	data, err := os.ReadFile(a.dir.trusting)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var ports []uint16
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil {
		return fmt.Errorf("the ports of the control plane that the last run has kept: %w", err)
	}
	a.trusting.Store(&ports)
	return nil
}
