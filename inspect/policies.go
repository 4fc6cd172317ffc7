package inspect

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// KindSidecar is what a proxy with listeners of its own is called.
const KindSidecar = "SidecarDataplane"

// Policies say which policies are chosen for the places of proxies, and what is in force
// there. They look at the view that the planner looks at and choose as it does.
type Policies struct {
	// Views are those that the planner follows.
	Views *view.Views
	// Policies are those that the planner applies.
	Policies []*policy.Policy
	// Latest is the newest revision of the store. Answers show it or a later one.
	Latest func() uint64
	// Turns bound how much is chosen, and shown, at a time: all that a mesh has may be
	// chosen for one answer.
	Turns *turns.Queue
}

// Waiting is how many may wait for their turn. Where meshes are large the last of them
// waits for some seconds.
const Waiting = 16

// Meta is a policy as lists of policies show it.
type Meta struct {
	Type             string            `json:"type"`
	Mesh             string            `json:"mesh"`
	Name             string            `json:"name"`
	CreationTime     time.Time         `json:"creationTime"`
	ModificationTime time.Time         `json:"modificationTime"`
	Labels           map[string]string `json:"labels,omitempty"`
}

// Attachment is a place of a proxy.
type Attachment struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	Service string `json:"service,omitempty"`
}

// Matched is a place with what was chosen for it, by the type of the policies.
type Matched struct {
	Attachment
	Policies map[string][]Meta `json:"matchedPolicies"`
	// Effective is what is in force, with the defaults of the policies, if it was asked
	// for.
	Effective map[string]any `json:"effective,omitempty"`
}

// MatchedList is what was chosen for a proxy.
type MatchedList struct {
	Kind  string    `json:"kind"`
	Total int       `json:"total"`
	Items []Matched `json:"items"`
	// Warnings say which inbounds lack a policy without which they refuse: a place for
	// which nothing was chosen is not among the items.
	Warnings []string `json:"warnings,omitempty"`
}

// Of shows the places of a dataplane with what was chosen for them, and with explain what
// is in force. NotFound if the dataplane does not exist, [turns.ErrFull] if too many ask.
func (p *Policies) Of(ctx context.Context, meshName, dataplane string, explain bool, show func(any) error) error {
	out := MatchedList{Kind: KindSidecar, Items: []Matched{}}
	return p.places(ctx, meshName, dataplane, func(m *view.Mesh, d *view.Dataplane) {
		out.Warnings = lackingOf(m, p.Policies, d.Spec.Networking)
	}, func(at *selection.Place) {
		m := Matched{Attachment: attachment(at), Policies: map[string][]Meta{}}
		for _, match := range at.Matches {
			if match.Policy.Rule {
				continue
			}
			kind := match.Policy.Kind.Document.Type
			for _, c := range match.Chosen.Policies {
				m.Policies[kind] = append(m.Policies[kind], meta(meshName, c))
			}
			if explain {
				if m.Effective == nil {
					m.Effective = map[string]any{}
				}
				m.Effective[kind] = match.Policy.Explain(match.Chosen)
			}
		}
		if len(m.Policies) > 0 {
			out.Items = append(out.Items, m)
		}
	}, func() error {
		out.Total = len(out.Items)
		return show(out)
	})
}

// Rule is what policies of one type that say whom they are about demand at a place.
type Rule struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	Service    string            `json:"service"`
	PolicyType string            `json:"policyType"`
	Subset     map[string]string `json:"subset"`
	Conf       any               `json:"conf"`
	Origins    []Origin          `json:"origins"`
}

// Origin is where a rule comes from.
type Origin struct {
	Mesh string `json:"mesh"`
	Name string `json:"name"`
}

// RuleList is what is demanded at the places of a proxy.
type RuleList struct {
	Total int    `json:"total"`
	Items []Rule `json:"items"`
}

// ruleTypes are the types of rules by the sort of their place.
var ruleTypes = map[string]string{
	selection.PlaceProxy: "singleItem", selection.PlaceInbound: "clientSubset",
	selection.PlaceOutbound: "destinationSubset", selection.PlaceService: "destinationSubset",
}

// Rules shows what the policies that are rules come to on a dataplane. Errors are those of
// Of.
func (p *Policies) Rules(ctx context.Context, meshName, dataplane string, show func(any) error) error {
	out := RuleList{Items: []Rule{}}
	return p.places(ctx, meshName, dataplane, func(*view.Mesh, *view.Dataplane) {}, func(at *selection.Place) {
		for _, match := range at.Matches {
			if !match.Policy.Rule {
				continue
			}
			r := Rule{
				Type: ruleTypes[at.Sort], Name: at.Socket, Service: at.Service, PolicyType: match.Policy.Kind.Document.Type,
				Subset: map[string]string{}, Conf: match.Policy.Explain(match.Chosen),
			}
			for _, c := range match.Chosen.Policies {
				r.Origins = append(r.Origins, Origin{meshName, c.Name})
			}
			out.Items = append(out.Items, r)
		}
	}, func() error {
		out.Total = len(out.Items)
		return show(out)
	})
}

// Proxy is a proxy for some places of which a policy was chosen.
type Proxy struct {
	Kind        string       `json:"kind"`
	Dataplane   Origin       `json:"dataplane"`
	Attachments []Attachment `json:"attachments"`
}

// ProxyList are the proxies for which a policy was chosen.
type ProxyList struct {
	Total int     `json:"total"`
	Items []Proxy `json:"items"`
}

// Chosen shows the dataplanes for which a policy of a kind was chosen, by name, and for
// which of their places. [turns.ErrFull] as Of.
func (p *Policies) Chosen(ctx context.Context, kind *model.Kind, meshName, name string, show func(any) error) error {
	out := ProxyList{Items: []Proxy{}}
	pol := p.find(kind)
	if pol == nil {
		return show(out)
	}
	return p.choose(ctx, meshName, func(m *view.Mesh) error {
		for _, d := range inOrder(m) {
			if err := ctx.Err(); err != nil {
				return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
			}
			var at []Attachment
			for _, place := range selection.Of(m, p.Policies, d) {
				for _, match := range place.Matches {
					if match.Policy == pol && has(match.Chosen, name) {
						at = append(at, attachment(&place))
					}
				}
			}
			if len(at) > 0 {
				out.Items = append(out.Items, Proxy{KindSidecar, Origin{meshName, d.ID}, at})
			}
		}
		out.Total = len(out.Items)
		return show(out)
	})
}

// places calls whole with a dataplane, visit for each place of it, in order, and then show.
func (p *Policies) places(ctx context.Context, meshName, dataplane string, whole func(*view.Mesh, *view.Dataplane), visit func(*selection.Place), show func() error) error {
	return p.choose(ctx, meshName, func(m *view.Mesh) error {
		d, ok := m.Dataplane(dataplane)
		if !ok {
			return fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist", dataplane, meshName)
		}
		whole(m, d)
		places := selection.Of(m, p.Policies, d)
		for i := range places {
			visit(&places[i])
		}
		return show()
	})
}

// choose calls with with a mesh that has all that was written before, once it is its turn.
// A mesh that is waited for takes no turn: others are not held up.
func (p *Policies) choose(ctx context.Context, meshName string, with func(*view.Mesh) error) error {
	m, release, err := p.mesh(ctx, meshName)
	if err != nil {
		return err
	}
	defer release()
	if err := p.Turns.Enter(ctx); err != nil {
		return err
	}
	defer p.Turns.Leave()
	return with(m)
}

// mesh is a mesh with all that was written before.
func (p *Policies) mesh(ctx context.Context, name string) (m *view.Mesh, release func(), err error) {
	latest := p.Latest()
	scope, err := p.Views.Mesh(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if m, err = scope.Await(ctx, latest); err != nil {
		scope.Release()
		return nil, nil, fault.Wrap(fault.Unavailable, err, "what was written last cannot be seen yet: ask again")
	}
	if m.Revision() < latest { // the store cannot be followed
		scope.Release()
		return nil, nil, fault.New(fault.Unavailable, "what was written last cannot be seen: ask again")
	}
	return m, scope.Release, nil
}
