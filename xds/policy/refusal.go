package policy

// Refusal says whom a policy turns away at the inbounds that it is chosen for. It decides
// whether the workload's own port is shut at a transparent proxy: what comes there would
// pass by all that the policy does at the port of the inbound.
type Refusal int

// Refusals.
const (
	// Unsaid counts as RefusesAnybody, and no policy that edits inbounds may leave it so.
	Unsaid Refusal = iota
	// RefusesNobody changes how requests are served, not who may make them.
	RefusesNobody
	// RefusesAuthenticated judges callers by their certificates, and so none in clear. Those
	// are what reaches a workload's own port: where mutual TLS is off or PERMISSIVE they
	// pass at the port of the inbound as well, and where it is STRICT nothing passes that
	// has no listener.
	RefusesAuthenticated
	// RefusesAnybody judges callers by what they send or where they come from, in clear, too.
	RefusesAnybody
)

// Guards reports whether the policy keeps callers out of an inbound that it is chosen for,
// who would not be kept out at the workload's own port.
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
	return p.Inbound != nil || p.InboundRoutes != nil || p.Patch != nil
}
