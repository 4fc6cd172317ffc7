package policy

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/view"
)

// Side says whom the rules of a place tell apart.
type Side int

// These are the sides of a proxy.
const (
	// Proxy is the proxy itself: its rules tell nobody apart.
	Proxy Side = iota
	// Callers are those who call an inbound.
	Callers
	// Destinations are the services that the proxy calls.
	Destinations
)

// Site is a place of a proxy for which rules are made. Service is the service of the inbound,
// or the one that is called.
type Site struct {
	Side
	Service string
}

// Rule is what policies come to, at a place, for some of those whom it is about.
type Rule struct {
	// Subset are their tags. The value "!v" is for those that have no such tag with the value
	// v; several are joined by commas.
	Subset map[string]string `json:"subset"`
	Conf   any               `json:"conf"`
	// Origins are the names of the policies that the conf is from, the best first.
	Origins []string `json:"origins"`
}

// Tie orders policies of equal rank: the later created one first, then by name (mesh policy
// selection).
func Tie(a, b *view.Policy) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

// RunsUnchosen reports whether the edits of inbounds also run where no policy is chosen.
func (p *Policy) RunsUnchosen() bool { return p.Always || p.Attachment.Has(ByInbound) }

// Decider returns the policy of a list that decides instead of this one wherever it is chosen,
// or nil.
func (p *Policy) Decider(list []*Policy) *Policy {
	if p.Yields == "" {
		return nil
	}
	for _, o := range list {
		if o.Kind.Name == p.Yields {
			return o
		}
	}
	return nil
}
