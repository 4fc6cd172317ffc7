package view

import (
	"cmp"
	"iter"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// policyIndex finds the policies of one kind. It is immutable.
type policyIndex struct {
	// ordered are all policies by name.
	ordered []*Policy
	// byService holds the policies with a destination, or a target, that names the service
	// exactly, anywhere those with another one. A policy may be in both, and belong to several
	// services.
	byService map[string][]*Policy
	anywhere  []*Policy
}

// with returns the index after a batch of changes by name; nil means deleted. It costs one
// pass over the policies of the kind, however many have changed.
func (x policyIndex) with(changed map[string]*Policy) policyIndex {
	joined := make([]*Policy, 0, len(changed))
	for _, p := range changed {
		if p != nil {
			joined = append(joined, p)
		}
	}
	slices.SortFunc(joined, byName)
	ordered := make([]*Policy, 0, len(x.ordered)+len(joined))
	for _, stays := range x.ordered {
		if _, left := changed[stays.Name]; left {
			continue
		}
		for len(joined) > 0 && byName(joined[0], stays) < 0 {
			ordered, joined = append(ordered, joined[0]), joined[1:]
		}
		ordered = append(ordered, stays)
	}
	return indexOf(append(ordered, joined...))
}

// indexOf builds an index from policies ordered by name. It keeps the slice.
func indexOf(ordered []*Policy) policyIndex {
	x := policyIndex{ordered: ordered, byService: map[string][]*Policy{}}
	for _, p := range ordered {
		anywhere := p.Targets == nil && len(p.Destinations) == 0
		for _, sets := range [...][]mesh.Tags{p.Targets, p.Destinations} {
			for _, d := range sets {
				anywhere = x.named(p, d.Service()) || anywhere
			}
		}
		if anywhere {
			x.anywhere = append(x.anywhere, p)
		}
	}
	return x
}

// named adds a policy to a service. It reports whether the policy names no service.
func (x policyIndex) named(p *Policy, service string) (anywhere bool) {
	if service == "" || service == mesh.AnyValue {
		return true
	}
	// Policies come one after another, so a repeated one is the last.
	if named := x.byService[service]; len(named) == 0 || named[len(named)-1] != p {
		x.byService[service] = append(named, p)
	}
	return false
}

// get returns a policy by name, nil if there is none.
func (x policyIndex) get(name string) *Policy {
	i, ok := slices.BinarySearchFunc(x.ordered, name, func(p *Policy, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return x.ordered[i]
}

func byName(a, b *Policy) int { return cmp.Compare(a.Name, b.Name) }

// none reports whether there are no policies.
func (x policyIndex) none() bool { return len(x.ordered) == 0 }

func (x policyIndex) all() iter.Seq[*Policy] { return slices.Values(x.ordered) }

// candidates merges the two lists, each of which is ordered by name.
func (x policyIndex) candidates(service string) iter.Seq[*Policy] {
	return func(yield func(*Policy) bool) {
		a, b := x.byService[service], x.anywhere
		for len(a) > 0 || len(b) > 0 {
			var p *Policy
			switch {
			case len(a) == 0 || len(b) > 0 && byName(b[0], a[0]) < 0:
				p, b = b[0], b[1:]
			case len(b) > 0 && b[0] == a[0]:
				p, a, b = a[0], a[1:], b[1:]
			default:
				p, a = a[0], a[1:]
			}
			if !yield(p) {
				return
			}
		}
	}
}
