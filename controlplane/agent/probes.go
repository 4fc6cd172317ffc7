package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/prober"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/probing"
	"github.com/meshgate/meshgate/xds/relay"
)

// newProber makes what checks the workloads of a sidecar. Other proxies have none.
func (a *Agent) newProber() {
	a.probed = make(chan struct{})
	if a.Sidecar == nil || a.Sidecar.ZoneType != "" {
		return
	}
	a.prober = prober.New(prober.Options{
		May:    a.mayProbe,
		Lacks:  a.lacksListener,
		Report: a.tellFound,
		Log:    a.Log,
	})
}

// mayProbe returns an error for an address where this agent looks for no workload.
func (a *Agent) mayProbe(at netip.AddrPort) error { return unableIfUnread(a.machine().Asks(at)) }

// unableIfUnread marks a refusal as one that says nothing of a workload if it is made only because
// the addresses of this machine are not known.
func unableIfUnread(err error) error {
	if errors.Is(err, machine.ErrUnread) {
		return fmt.Errorf("%w: %w", prober.ErrUnable, err)
	}
	return err
}

// lacksListener returns why Envoy does not have a listener.
func (a *Agent) lacksListener(name string) error {
	r := a.relay.Load()
	if r == nil {
		return nil
	}
	err := r.Lacks(name)
	if errors.Is(err, relay.ErrUnanswered) {
		return fmt.Errorf("%w: %w", prober.ErrEarly, err)
	}
	return err
}

// probes tells the prober what it checks.
func (a *Agent) probes(p []probing.Probe) {
	if a.prober != nil {
		a.prober.Set(p)
	}
}

// probe checks workloads, or makes an egress appear, until ctx ends: the agent is then about to withdraw
// the proxy, and nobody may say that it is there.
func (a *Agent) probe(ctx context.Context) {
	defer close(a.probed)
	if a.prober != nil {
		a.prober.Run(ctx)
	}
	a.appear(ctx)
}

// errNotConnected says that what the mesh holds is not known.
var errNotConnected = errors.New("the proxy is not connected")

// tellFound tells the control plane which workloads are there. What differs from an old
// configuration counts for nothing. Another agent may have taken the place of this one: the control
// plane knows by the instance, if the agents register their Dataplane.
func (a *Agent) tellFound(ctx context.Context, found []probing.Finding) error {
	if r := a.relay.Load(); r != nil && !r.Status().Connected {
		return errNotConnected
	}
	token, err := a.token()
	if err != nil {
		return err
	}
	return prober.Post(ctx, a.client(), a.Address, token, a.NodeID(), probing.Report{Instance: a.instance, Inbounds: found})
}
