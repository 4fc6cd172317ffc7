package agent

import (
	"context"
	"errors"
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/prober"
	"github.com/meshgate/meshgate/xds/probing"
)

// newProber makes what checks the workloads of a sidecar. Other proxies have none.
func (a *Agent) newProber() {
	a.probed = make(chan struct{})
	if a.Sidecar == nil || a.Sidecar.ZoneType != "" {
		return
	}
	a.prober = prober.New(prober.Options{
		May:    func(at netip.AddrPort) error { return a.machine().Asks(at) },
		Report: a.tellFound,
		Log:    a.Log,
	})
}

// probes tells the prober what it checks.
func (a *Agent) probes(p []probing.Probe) {
	if a.prober != nil {
		a.prober.Set(p)
	}
}

// probe checks workloads until ctx ends: the agent is then about to withdraw the proxy, and nobody
// may say that it is there.
func (a *Agent) probe(ctx context.Context) {
	defer close(a.probed)
	if a.prober != nil {
		a.prober.Run(ctx)
	}
}

// errNotConnected says that what the mesh holds is not known.
var errNotConnected = errors.New("the proxy is not connected")

// tellFound tells the control plane which workloads are there. What differs from an old
// configuration counts for nothing: another agent may have taken the place of this one, and would
// be contradicted for ever.
func (a *Agent) tellFound(ctx context.Context, found []probing.Finding) error {
	if r := a.relay.Load(); r != nil && !r.Status().Connected {
		return errNotConnected
	}
	token, err := a.token()
	if err != nil {
		return err
	}
	return prober.Post(ctx, a.client(), a.Address, token, a.NodeID(), found)
}
