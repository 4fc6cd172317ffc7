package mesh

import (
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ServiceProbe is how the agent of a proxy checks the workload of an inbound. What it finds is the
// readiness of the inbound.
type ServiceProbe struct {
	// Interval is the time between two checks. Timeout is how long one may take.
	Interval *Duration `json:"interval,omitempty"`
	Timeout  *Duration `json:"timeout,omitempty"`
	// UnhealthyThreshold and HealthyThreshold are how many consecutive checks must fail, or
	// succeed, to change the readiness.
	UnhealthyThreshold *uint32 `json:"unhealthyThreshold,omitempty"`
	HealthyThreshold   *uint32 `json:"healthyThreshold,omitempty"`
	// TCP is the only kind of check: a successful connection is enough.
	TCP *TCPProbe `json:"tcp,omitempty"`
}

// TCPProbe has no settings.
type TCPProbe struct{}

// What applies where a probe says nothing.
const (
	ProbeInterval  = time.Second
	ProbeTimeout   = 2 * time.Second
	ProbeThreshold = 1
)

// MaxServiceProbes is how many inbounds of a dataplane are probed.
const MaxServiceProbes = 100

// minProbeInterval keeps agents from doing nothing but probing.
const minProbeInterval = 10 * time.Millisecond

// serviceProbe refuses a probe that does nothing.
func (vs *violations) serviceProbe(path string, p *ServiceProbe) {
	if p == nil {
		return
	}
	positive := func(name string, ok bool) {
		if !ok {
			vs.add(path+"."+name, "must have a positive value")
		}
	}
	one := func(n *uint32) bool { return n == nil || *n > 0 }
	positive("interval", p.Interval.Or(ProbeInterval) > 0)
	positive("timeout", p.Timeout.Or(ProbeTimeout) > 0)
	positive("unhealthyThreshold", one(p.UnhealthyThreshold))
	positive("healthyThreshold", one(p.HealthyThreshold))
	if i := p.Interval.Or(ProbeInterval); i > 0 && i < minProbeInterval {
		vs.add(path+".interval", "must not be shorter than 10ms")
	}
	if p.TCP == nil {
		vs.add(path+".tcp", "must be defined: there is no other kind of probe")
	}
}

// manyProbes refuses more probes than an agent runs.
func (vs *violations) manyProbes(n *Networking) {
	probed := 0
	for i := range n.Inbound {
		if n.Inbound[i].ServiceProbe != nil {
			probed++
		}
	}
	if probed > MaxServiceProbes {
		vs.add("networking.inbound", fmt.Sprintf("must have at most %d elements with serviceProbe", MaxServiceProbes))
	}
}

// IsReady reports whether callers get the inbound as an endpoint.
func (in *Inbound) IsReady() bool {
	return (in.State == "" || in.State == StateReady) && (in.Health == nil || in.Health.Ready)
}

// SetReady says that the inbound is ready, or that it is not.
func (in *Inbound) SetReady(ready bool) {
	in.State, in.Health = StateNotReady, &Health{}
	if ready {
		in.State, in.Health = "", &Health{Ready: true}
	}
}

// Probed reports whether the readiness of the inbound is what a probe finds. That of an ignored
// one is nothing.
func (in *Inbound) Probed() bool { return in.ServiceProbe != nil && in.State != StateIgnored }

// Inbound returns the inbound that listens on a port, nil if there is none. address is what its
// member of that name says.
func (d *Dataplane) Inbound(address string, port uint32) *Inbound {
	if d.Networking == nil {
		return nil
	}
	for i := range d.Networking.Inbound {
		if in := &d.Networking.Inbound[i]; in.Address == address && in.Port == port {
			return in
		}
	}
	return nil
}

// keepReadiness returns the spec of a dataplane that is about to be written, with the readiness
// that only probes know. A probed inbound that is new is not ready, whatever its author says of
// it. One that was there stays what it was if its author says nothing; one that callers or the proxy
// now find at another place is new, because nobody knows yet what is there.
func keepReadiness(old *model.Resource, spec any) any {
	d := spec.(*Dataplane)
	var was Dataplane
	if old != nil {
		was = *old.Spec.(*Dataplane)
	}
	moved := d.Networking.elsewhere(was.Networking)
	return d.WithInbounds(func(in *Inbound) {
		if !in.Probed() {
			return
		}
		before := was.Inbound(in.Address, in.Port)
		if before != nil && (moved || in.elsewhere(before)) {
			before = nil
		}
		switch {
		case before == nil || before.State == StateIgnored && in.saysNothing():
			in.SetReady(false)
		case in.saysNothing():
			in.State, in.Health = before.State, before.Health
		}
	})
}

// elsewhere reports whether callers find a proxy at another place than before.
func (n *Networking) elsewhere(before *Networking) bool {
	return n != nil && before != nil && (n.Address != before.Address || n.AdvertisedAddress != before.AdvertisedAddress)
}

// elsewhere reports whether the proxy finds the workload at another place than before.
func (in *Inbound) elsewhere(before *Inbound) bool {
	return in.ServiceAddress != before.ServiceAddress || orPort(in.ServicePort, in.Port) != orPort(before.ServicePort, before.Port)
}

func (in *Inbound) saysNothing() bool { return in.State == "" && in.Health == nil }

// WithInbounds returns the dataplane with inbounds that change may have changed. Stored specs are
// shared, so nothing that d has is written to.
func (d *Dataplane) WithInbounds(change func(*Inbound)) *Dataplane {
	if d.Networking == nil {
		return d
	}
	out, n := *d, *d.Networking
	n.Inbound = slices.Clone(n.Inbound)
	for i := range n.Inbound {
		change(&n.Inbound[i])
	}
	out.Networking = &n
	return &out
}
