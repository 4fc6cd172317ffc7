package policy

import "github.com/meshgate/meshgate/controlplane/mesh"

// IdleAt says why the policy does nothing at an inbound with a protocol, wherever it is chosen.
// The text is empty if it may do something.
func (p *Policy) IdleAt(protocol string) string {
	if p.HTTPOnly && !mesh.IsHTTP(protocol) {
		return "not applied: the inbound speaks " + protocol
	}
	return ""
}

// IdleOn says why the policy does nothing on a listener of a gateway, as IdleAt does.
func (p *Policy) IdleOn(protocol string) string {
	if p.HTTPOnly && protocol != mesh.ListenerHTTP && protocol != mesh.ListenerHTTPS {
		return "not applied: the listener speaks " + protocol
	}
	return ""
}

// Setting is what decides, beside a policy itself, whether its fields have an effect on
// connections to a destination.
type Setting struct {
	// Protocol is what the destination speaks; empty if it is not known.
	Protocol string
	// Hashing says that the endpoints are picked by a hash.
	Hashing bool
}

// IdleFields names the fields of chosen policies that have no effect in a setting, and says why:
// one sentence for each.
func (p *Policy) IdleFields(s *Selection, at Setting) []string {
	if p.Idle == nil || s == nil {
		return nil
	}
	return p.Idle(s, at)
}

// Problem says what is wrong with facts; it is empty if nothing is, or nothing was found.
func Problem(facts any) string {
	if f, ok := facts.(Problematic); ok {
		return f.Problem()
	}
	return ""
}

// Names lists the chosen policies, for operators.
func (p *Policy) Names(s *Selection) (out []string) {
	for _, c := range s.Policies {
		out = append(out, p.Named(c.Name))
	}
	return out
}

// Named is how a policy with a name is called in what operators read.
func (p *Policy) Named(name string) string { return p.Kind.Document.Type + " " + name }
