package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// maxWarned is the maximum number of items, and of inbounds per item, in one answer. The total
// counts all items.
const maxWarned = 1000

// Warned is what is said about one policy or, without a name, about the inbounds for which no
// policy of a type is chosen.
type Warned struct {
	Type     string   `json:"type"`
	Mesh     string   `json:"mesh"`
	Name     string   `json:"name,omitempty"`
	Warnings []string `json:"warnings"`
	// Refusing are those warnings that name inbounds which refuse everybody.
	Refusing []string `json:"refusing,omitempty"`
}

// WarnedList contains the warnings about a mesh.
type WarnedList struct {
	Total int      `json:"total"`
	Items []Warned `json:"items"`
}

// Warnings shows what is valid in a mesh but probably not intended: what [Policies.Nowhere]
// reports at a write, in its current state, and which inbounds refuse everybody because no
// policy admits anybody. Errors are those of Of.
func (p *Policies) Warnings(ctx context.Context, meshName string, show func(any) error) error {
	return p.With(ctx, meshName, func(m *view.Mesh) error {
		out := WarnedList{Items: []Warned{}}
		add := func(w Warned) {
			if w.Warnings = append(w.Warnings, w.Refusing...); len(w.Warnings) == 0 {
				return
			}
			if out.Total++; len(out.Items) < maxWarned {
				out.Items = append(out.Items, w)
			}
		}
		c := take(m)
		for _, pol := range p.Policies {
			typ := pol.Kind.Document.Type
			refusing := c.refusing(ctx, m, p.Policies, pol)
			for res := range m.Policies(pol.Kind) {
				if err := ctx.Err(); err != nil {
					return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
				}
				add(Warned{typ, meshName, res.Name, sentences(c.judge(pol, res.Spec)), refusing[res.Name]})
			}
			add(Warned{typ, meshName, "", nil, refusing[""]})
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

// refusing names the inbounds, by their tags, to which no policy of a type admits anybody: by
// the name of the policy that is chosen for them, "" if there is none. It returns at most
// [maxWarned] inbounds and stops when ctx has ended. A policy that decides instead of another
// one need not be chosen.
func (c *census) refusing(ctx context.Context, m *view.Mesh, policies []*policy.Policy, pol *policy.Policy) map[string][]string {
	text := closedText(m, pol)
	if text == "" {
		return nil
	}
	out, n, barred, decides := map[string][]string{}, 0, map[string]bool{}, decidesFor(policies, pol)
	for _, key := range slices.Sorted(maps.Keys(c.inbounds)) {
		if n == maxWarned || ctx.Err() != nil {
			break
		}
		chosen := selection.OnInbound(nil, m, pol, c.inbounds[key])
		if len(chosen) == 0 && decides || selection.Decided(m, policies, pol, c.inbounds[key]) || len(chosen) > 0 && !c.barred(pol, chosen, barred) {
			continue
		}
		name, why := "", noneChosen(pol)
		switch {
		case len(chosen) > 0 && pol.Admits != nil:
			name, why = chosen[0].Name, "this is chosen, and admits no proxy of the mesh"
		case len(chosen) > 0:
			name, why = chosen[0].Name, "this is chosen, and no proxy of the mesh is among its sources"
		}
		out[name] = append(out[name], fmt.Sprintf("%s (%d inbounds): %s, so %s", key, c.counts[key], why, text))
		n++
	}
	return out
}

// barred reports whether the chosen policies admit no proxy. known holds what was found out
// before, by the names of the policies, because the same ones may be chosen for many inbounds.
func (c *census) barred(pol *policy.Policy, chosen []*view.Policy, known map[string]bool) bool {
	names := make([]string, len(chosen))
	for i, one := range chosen {
		names[i] = one.Name
	}
	key := strings.Join(names, " ")
	nobody, told := known[key]
	if !told {
		nobody = !c.admitted(pol, chosen)
		known[key] = nobody
	}
	return nobody
}

// admitted reports whether chosen policies admit any proxy.
func (c *census) admitted(pol *policy.Policy, chosen []*view.Policy) bool {
	if pol.Admits == nil {
		return slices.ContainsFunc(chosen, func(one *view.Policy) bool {
			return slices.ContainsFunc(one.Sources, c.member)
		})
	}
	for _, tags := range c.proxies {
		if pol.Admits(chosen, func(selector mesh.Tags) bool { return carried(selector, tags) }) {
			return true
		}
	}
	return false
}

// decidesFor reports whether a policy decides instead of another one of a list.
func decidesFor(policies []*policy.Policy, pol *policy.Policy) bool {
	return slices.ContainsFunc(policies, func(o *policy.Policy) bool { return o.Yields == pol.Kind.Name })
}

// lackingOf says, for each inbound of a proxy, which policies it needs but lacks.
func lackingOf(m *view.Mesh, policies []*policy.Policy, d *mesh.Dataplane) (out []string) {
	if d.Networking == nil {
		return nil
	}
	inbounds := selection.Inbounds(d.Networking)
	if s, err := selection.Scraped(m, d); err == nil && s != nil {
		inbounds = append(inbounds, &mesh.Inbound{Port: s.Port, Tags: s.Tags})
	}
	for _, pol := range policies {
		text := closedText(m, pol)
		if text == "" || decidesFor(policies, pol) {
			continue
		}
		for _, in := range inbounds {
			if !selection.Decided(m, policies, pol, in.Tags) && len(selection.OnInbound(nil, m, pol, in.Tags)) == 0 {
				out = append(out, fmt.Sprintf("inbound %d of %s: %s, so %s", in.Port, in.Tags.Service(), noneChosen(pol), text))
			}
		}
	}
	return out
}

func noneChosen(pol *policy.Policy) string { return "no " + pol.Kind.Document.Type + " is chosen" }

// closedText says who is refused in a mesh if no policy of a type admits anybody. It is empty
// if nobody is.
func closedText(m *view.Mesh, pol *policy.Policy) string {
	if pol.Closed == nil || m.Spec() == nil {
		return ""
	}
	return pol.Closed(m.Spec().Spec)
}
