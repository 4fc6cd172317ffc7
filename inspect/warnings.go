package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// maxWarned is the maximum number of items, and of inbounds per item, in one answer. The total
// counts all items.
const maxWarned = 1000

// Warned is one warning: about a policy with selectors that select nobody or, without a name,
// about a type of policy that some inbounds lack.
type Warned struct {
	Type     string   `json:"type"`
	Mesh     string   `json:"mesh"`
	Name     string   `json:"name,omitempty"`
	Warnings []string `json:"warnings"`
}

// WarnedList contains the warnings about a mesh.
type WarnedList struct {
	Total int      `json:"total"`
	Items []Warned `json:"items"`
}

// Warnings shows what is valid in a mesh but probably not intended: what [Policies.Nowhere]
// reports at a write, in its current state, and which inbounds lack a policy without which
// they refuse. Errors are those of Of.
func (p *Policies) Warnings(ctx context.Context, meshName string, show func(any) error) error {
	return p.choose(ctx, meshName, func(m *view.Mesh) error {
		out := WarnedList{Items: []Warned{}}
		add := func(w Warned) {
			if out.Total++; len(out.Items) < maxWarned {
				out.Items = append(out.Items, w)
			}
		}
		c := take(m)
		for _, pol := range p.Policies {
			typ := pol.Kind.Document.Type
			for res := range m.Policies(pol.Kind) {
				if err := ctx.Err(); err != nil {
					return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
				}
				if found := c.judge(pol, res.Spec); len(found) > 0 {
					add(Warned{typ, meshName, res.Name, sentences(found)})
				}
			}
			if lacks := c.lacks(ctx, m, pol); len(lacks) > 0 {
				add(Warned{typ, meshName, "", lacks})
			}
		}
		if err := ctx.Err(); err != nil {
			return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
		}
		return show(out)
	})
}

func sentences(found []fault.Violation) (out []string) {
	for _, v := range found {
		out = append(out, v.Path+": "+v.Message)
	}
	return out
}

// lacks names the inbounds, by their tags, for which a policy of a type is needed but none is
// chosen. It returns at most [maxWarned] and stops when ctx has ended.
func (c *census) lacks(ctx context.Context, m *view.Mesh, pol *policy.Policy) (out []string) {
	text := lackingText(m, pol)
	if text == "" {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.inbounds)) {
		if len(out) == maxWarned || ctx.Err() != nil {
			break
		}
		if len(selection.OnInbound(nil, m, pol, c.inbounds[key])) == 0 {
			out = append(out, fmt.Sprintf("%s (%d inbounds): %s", key, c.counts[key], text))
		}
	}
	return out
}

// lackingOf says, for each inbound of a proxy, which policies it needs but lacks.
func lackingOf(m *view.Mesh, policies []*policy.Policy, n *mesh.Networking) (out []string) {
	if n == nil {
		return nil
	}
	for _, pol := range policies {
		text := lackingText(m, pol)
		if text == "" {
			continue
		}
		for _, in := range selection.Inbounds(n) {
			if len(selection.OnInbound(nil, m, pol, in.Tags)) == 0 {
				out = append(out, fmt.Sprintf("inbound %d of %s: %s", in.Port, in.Tags.Service(), text))
			}
		}
	}
	return out
}

// lackingText returns the effect, in a mesh, of an inbound without a policy of a type. It is
// empty if there is none.
func lackingText(m *view.Mesh, pol *policy.Policy) string {
	if pol.Lacking == nil || m.Spec() == nil {
		return ""
	}
	return pol.Lacking(m.Spec().Spec)
}
