package policy

// Refusal says whom a policy refuses at the inbounds that it is chosen for. It decides whether
// to close the workload's own port at a transparent proxy: connections to that port bypass
// everything that the policy does at the port of the inbound.
type Refusal int

// These are the refusals.
const (
	// Unsaid counts as RefusesAnybody. A policy that edits inbounds must not leave it.
	Unsaid Refusal = iota
	// RefusesNobody changes how requests are served, not who may send them.
	RefusesNobody
	// RefusesAuthenticated judges callers by their certificates, so it refuses none in clear,
	// and only those reach a workload's own port. If mutual TLS is off or PERMISSIVE, they
	// also pass at the port of the inbound. If it is STRICT, connections to a port without a
	// listener do not pass.
	RefusesAuthenticated
	// RefusesAnybody judges callers, also in clear, by what they send or where they come from.
	RefusesAnybody
)

// Guards reports whether the policy keeps callers out of an inbound who could still use the
// workload's own port.
func (p *Policy) Guards() bool {
	switch p.Refuses {
	case RefusesNobody, RefusesAuthenticated:
		return false
	case RefusesAnybody:
		return true
	}
	return p.EditsInbounds()
}

// EditsInbounds reports whether the policy changes what inbounds do.
func (p *Policy) EditsInbounds() bool {
	return p.Inbound != nil || p.EditsInboundRoutes() || p.Patch != nil
}

// EditsInboundRoutes reports whether the policy changes the route tables of inbounds.
func (p *Policy) EditsInboundRoutes() bool {
	return p.InboundRoutes != nil || p.Callers != nil || p.Demand != nil
}
