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
	// byService are those with a destination that names the service exactly;
	// anywhere are those with a destination that does not. A policy may be in
	// both, and in byService more than once.
	byService map[string][]*Policy
	anywhere  []*Policy
}

// indexOf builds an index from policies in any order.
func indexOf(ps []*Policy) policyIndex {
	x := policyIndex{ordered: slices.Clone(ps), byService: map[string][]*Policy{}}
	slices.SortFunc(x.ordered, byName)
	for _, p := range x.ordered {
		anywhere, named := false, map[string]bool{}
		for _, d := range p.Destinations {
			if s := d[mesh.TagService]; s == "" || s == mesh.AnyValue {
				anywhere = true
			} else if !named[s] {
				named[s] = true
				x.byService[s] = append(x.byService[s], p)
			}
		}
		if anywhere || len(p.Destinations) == 0 {
			x.anywhere = append(x.anywhere, p)
		}
	}
	return x
}

func byName(a, b *Policy) int { return cmp.Compare(a.Name, b.Name) }

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
