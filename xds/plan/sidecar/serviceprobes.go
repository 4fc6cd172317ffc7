package sidecar

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/probing"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// The agent of a proxy checks the workloads of inbounds with a service probe, where the proxy calls
// them. It is told by a cluster of the proxy alone, which also says what the mesh holds of each
// inbound. So an inbound that turns unready changes nothing that Envoy uses, and no other proxy of
// the class.

// serviceProbes are the probes of a proxy, with the resource that tells them once it is made.
type serviceProbes struct {
	probes   []probing.Probe
	failures []plan.Failure
	told     *resource.Resource
}

// take reads the probes of a dataplane with the inbounds of a shape, which listen on the addresses of
// listening.
func (s *serviceProbes) take(d *view.Dataplane, of *shape, listening []string) {
	var next serviceProbes
	if n := d.Spec.Networking; n != nil {
		for i, in := range selection.Inbounds(n) {
			if !in.Probed() {
				continue
			}
			p, err := serviceProbe(in, &of.Inbounds[i], n.Address)
			p.Listener = inboundName(listening[i], in.Port)
			switch {
			case err != nil:
			case slices.ContainsFunc(next.probes, func(o probing.Probe) bool { return o.Inbound == p.Inbound }):
				err = fmt.Errorf("another inbound listens on port %d", in.Port)
			case len(next.probes) == probing.Max:
				err = fmt.Errorf("no more than %d inbounds are probed", probing.Max)
			}
			if err != nil { // it was stored by other rules
				next.failures = append(next.failures, plan.Failure{Cell: p.Listener, Err: fmt.Errorf("its workload is not probed: %w", err)})
				continue
			}
			next.probes = append(next.probes, p)
		}
	}
	if slices.Equal(s.probes, next.probes) {
		next.told = s.told
	}
	*s = next
}

// serviceProbe is the probe of an inbound, at the address of its local cluster. address is that of
// the proxy.
func serviceProbe(in *mesh.Inbound, of *inboundShape, address string) (p probing.Probe, err error) {
	var from netip.Addr
	workload := of.WorkloadAddress
	if workload == "" { // the workload of a transparent proxy is at the proxy's own address
		workload = address
		if from, err = workloadSource(address); err != nil {
			return p, err
		}
	}
	at, err := addressOf(workload, of.WorkloadPort)
	if err != nil {
		return p, err
	}
	s := in.ServiceProbe
	threshold := func(n *uint32) uint32 {
		if n == nil {
			return mesh.ProbeThreshold
		}
		return *n
	}
	return probing.Probe{
		Inbound: probing.Inbound{Address: in.Address, Port: uint16(in.Port)}, At: at, From: from, //nolint:gosec // validated
		Interval: s.Interval.Or(mesh.ProbeInterval), Timeout: s.Timeout.Or(mesh.ProbeTimeout),
		Unhealthy: threshold(s.UnhealthyThreshold), Healthy: threshold(s.HealthyThreshold), Ready: in.IsReady(),
	}, nil
}

// tellProbes tells the agent of a proxy what it probes.
func (x *proxy) tellProbes() {
	s := &x.probes
	x.own.failures = append(x.own.failures, s.failures...)
	if len(s.probes) == 0 {
		return
	}
	var err error
	if s.told == nil {
		s.told, err = freezeProbes(s.probes)
	}
	x.own.keep(&x.own.clusters, nil, probing.Told, s.told, err)
}

func freezeProbes(probes []probing.Probe) (*resource.Resource, error) {
	c, err := probing.Describe(probes)
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Cluster, c.GetName(), c)
}

// aboutProbes reports whether a resource tells the agent what it probes. No template may touch it.
func aboutProbes(r *resource.Resource) bool {
	return r.Type == resource.Cluster && r.Name == probing.Told
}
