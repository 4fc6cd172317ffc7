package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// KindSidecar is the kind of a proxy with its own listeners.
const KindSidecar = "SidecarDataplane"

// Policies says which policies are chosen for the places of proxies, and what is in force
// there. It reads the same view as the planner and chooses in the same way.
type Policies struct {
	// Views are those that the planner follows.
	Views *view.Views
	// Policies are those that the planner applies.
	Policies []*policy.Policy
	// Latest returns the newest revision of the store. Answers show it or a later one.
	Latest func() uint64
	// Turns limits concurrent answers, because one answer may choose all policies of a mesh.
	Turns *turns.Queue
	// Problems tells what planning and proxies say; nil if nobody knows.
	Problems Problems
}

// Waiting is how many requests may wait for their turn. In large meshes the last of them waits
// for some seconds.
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
	// Errors say which policies, or which of their fields, have no effect at the place, and why, as
	// far as the mesh tells.
	Errors []string `json:"errors,omitempty"`
}

// Matched is a place with the policies chosen for it, by their type.
type Matched struct {
	Attachment
	Policies map[string][]Meta `json:"matchedPolicies"`
	// Effective is what is in force, including the defaults of the policies, if it was asked
	// for.
	Effective map[string]any `json:"effective,omitempty"`
}

// MatchedList is what was chosen for a proxy.
type MatchedList struct {
	Kind  string    `json:"kind"`
	Total int       `json:"total"`
	Items []Matched `json:"items"`
	// Warnings say which inbounds lack a policy without which they refuse, and which services the
	// dataplane does not reach although policies name them. The items do not show this, because
	// they include only places with policies.
	Warnings []string `json:"warnings,omitempty"`
	// Errors are those of the dataplane's overview.
	Errors []string `json:"errors,omitempty"`
}

// Of shows the places of a dataplane with what was chosen for them and, with explain, what is
// in force. The error is NotFound if the dataplane does not exist, or [turns.ErrFull] if too
// many ask.
func (p *Policies) Of(ctx context.Context, meshName, dataplane string, explain bool, show func(any) error) error {
	gateway := (*GatewayList)(nil)
	out := MatchedList{Kind: KindSidecar, Items: []Matched{}}
	var in *view.Mesh
	return p.places(ctx, meshName, dataplane, func(m *view.Mesh, d *view.Dataplane, places []selection.Place) {
		if in = m; selection.Builtin(d.Spec.Networking) {
			g := p.gateway(meshName, m, d, explain)
			gateway = &g
			return
		}
		out.Warnings = append(lackingOf(m, p.Policies, d.Spec), p.leftOutOf(m, d, places)...)
		out.Errors = p.problems(meshName, dataplane)
	}, func(at *selection.Place) {
		m := Matched{Attachment: attachment(at), Policies: map[string][]Meta{}}
		for _, match := range at.Matches {
			if match.Policy.Rules != nil {
				continue
			}
			kind := match.Policy.Kind.Document.Type
			for _, c := range match.Chosen.Policies {
				m.Policies[kind] = append(m.Policies[kind], meta(meshName, c))
			}
			m.Errors = append(m.Errors, unapplied(in, at, match, "")...)
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
		if gateway != nil {
			return show(*gateway)
		}
		out.Total = len(out.Items)
		return show(out)
	})
}

// Rule is the demand of policies of one type at a place. These policies themselves say whom
// they are about.
type Rule struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	Service    string            `json:"service"`
	PolicyType string            `json:"policyType"`
	Subset     map[string]string `json:"subset"`
	Conf       any               `json:"conf"`
	Origins    []Origin          `json:"origins"`
	// Errors say which of the policies have no effect at the place; see [Attachment].
	Errors []string `json:"errors,omitempty"`
}

// Origin says where a rule comes from.
type Origin struct {
	Mesh string `json:"mesh"`
	Name string `json:"name"`
}

// RuleList contains the demands at the places of a proxy.
type RuleList struct {
	Total int    `json:"total"`
	Items []Rule `json:"items"`
	// Errors are those of the dataplane's overview.
	Errors []string `json:"errors,omitempty"`
}

// ruleTypes maps the sides of a proxy to the types of rules.
var ruleTypes = map[policy.Side]string{
	policy.Proxy: "singleItem", policy.Callers: "clientSubset", policy.Destinations: "destinationSubset",
}

// sides maps the sorts of places to the sides of a proxy.
var sides = map[string]policy.Side{
	selection.PlaceProxy: policy.Proxy, selection.PlaceInbound: policy.Callers,
	selection.PlaceListener: policy.Callers,
	selection.PlaceOutbound: policy.Destinations, selection.PlaceService: policy.Destinations,
}

// rulesAt returns the rules that one policy makes for a place. A place without an address has
// its name, or that of its sort.
func rulesAt(meshName string, at *selection.Place, match selection.Match) (out []Rule) {
	site := policy.Site{Side: sides[at.Sort], Service: at.Service}
	for _, r := range match.Policy.Rules(match.Chosen, site) {
		item := Rule{
			Type: ruleTypes[site.Side], Name: cmp.Or(at.Socket, at.Name, at.Sort), Service: at.Service,
			PolicyType: match.Policy.Kind.Document.Type, Subset: r.Subset, Conf: r.Conf, Origins: []Origin{},
		}
		for _, name := range r.Origins {
			item.Origins = append(item.Origins, Origin{meshName, name})
		}
		out = append(out, item)
	}
	return out
}

// Rules shows the results of the policies that are rules, on a dataplane. Errors are those of
// Of.
func (p *Policies) Rules(ctx context.Context, meshName, dataplane string, show func(any) error) error {
	out := RuleList{Items: []Rule{}, Errors: p.problems(meshName, dataplane)}
	var in *view.Mesh
	return p.places(ctx, meshName, dataplane, func(m *view.Mesh, _ *view.Dataplane, _ []selection.Place) { in = m }, func(at *selection.Place) {
		for _, match := range at.Matches {
			if match.Policy.Rules == nil {
				continue
			}
			wrong := unapplied(in, at, match, "")
			for _, r := range rulesAt(meshName, at, match) {
				r.Errors = wrong
				out.Items = append(out.Items, r)
			}
		}
	}, func() error {
		slices.SortStableFunc(out.Items, func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type)) })
		out.Total = len(out.Items)
		return show(out)
	})
}

// Proxy is a proxy with the places for which a policy was chosen.
type Proxy struct {
	Kind        string       `json:"kind"`
	Dataplane   Origin       `json:"dataplane"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Gateway and Listeners are those of builtin gateways. Listeners are absent for a policy on the
	// whole gateway.
	Gateway   *Origin          `json:"gateway,omitempty"`
	Listeners []ChosenListener `json:"listeners,omitempty"`
	// Errors are those of the dataplane's overview that are about the policy, or may be.
	Errors []string `json:"errors,omitempty"`
}

// ProxyList contains the proxies for which a policy was chosen.
type ProxyList struct {
	Total int     `json:"total"`
	Items []Proxy `json:"items"`
	// Warnings say at which dataplanes the policy is not in force because they do not reach a
	// service that it names.
	Warnings []string `json:"warnings,omitempty"`
}

// Chosen shows, by name, the dataplanes for which a policy of a kind was chosen, and for which
// of their places. It returns [turns.ErrFull] as Of does.
func (p *Policies) Chosen(ctx context.Context, kind *model.Kind, meshName, name string, show func(any) error) error {
	out := ProxyList{Items: []Proxy{}}
	pol := p.find(kind)
	if pol == nil {
		return show(out)
	}
	return p.With(ctx, meshName, func(m *view.Mesh) error {
		excluded, c, asked := exclusion{}, find(m, pol, name), p.deciding(pol)
		for _, d := range inOrder(m) {
			if err := ctx.Err(); err != nil {
				return fault.Wrap(fault.Unavailable, err, "nobody waits for the answer any more")
			}
			places := selection.Of(m, asked, d)
			one := &Proxy{Kind: KindSidecar, Dataplane: Origin{meshName, d.ID}, Attachments: attachments(m, places, pol, name)}
			if selection.Builtin(d.Spec.Networking) {
				one = builtinAt(meshName, m, d, pol, name, one)
			}
			if one != nil && (len(one.Attachments) > 0 || one.Kind == KindGateway) {
				if p.Problems != nil {
					one.Errors = p.Problems.About(meshName, d.ID, pol, name)
				}
				out.Items = append(out.Items, *one)
			}
			if c != nil && bounded(d) {
				for _, s := range leftOut(m, d, pol, c, reached(places)) {
					excluded[s] = append(excluded[s], d.ID)
				}
			}
		}
		out.Total, out.Warnings = len(out.Items), excluded.sentences()
		return show(out)
	})
}

// problems returns the errors of a dataplane's overview.
func (p *Policies) problems(meshName, dataplane string) []string {
	if p.Problems == nil {
		return nil
	}
	return p.Problems.Of(meshName, dataplane)
}

// places calls whole with a dataplane and its places, then visit for each of these in order, and
// then show.
func (p *Policies) places(ctx context.Context, meshName, dataplane string, whole func(*view.Mesh, *view.Dataplane, []selection.Place), visit func(*selection.Place), show func() error) error {
	return p.With(ctx, meshName, func(m *view.Mesh) error {
		d, ok := m.Dataplane(dataplane)
		if !ok {
			return fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist", dataplane, meshName)
		}
		places := selection.Of(m, p.Policies, d)
		whole(m, d, places)
		for i := range places {
			visit(&places[i])
		}
		return show()
	})
}

// With calls with when it is its turn, with a mesh that includes all earlier writes. Waiting
// for the mesh takes no turn, so it does not hold up others.
func (p *Policies) With(ctx context.Context, meshName string, with func(*view.Mesh) error) error {
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

// mesh returns a mesh that includes all earlier writes.
func (p *Policies) mesh(ctx context.Context, name string) (m *view.Mesh, release func(), err error) {
	latest := p.Latest()
	scope, err := p.Views.Mesh(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if m, err = scope.Await(ctx, latest, nil); err != nil {
		scope.Release()
		return nil, nil, fault.Wrap(fault.Unavailable, err, "what was written last cannot be seen yet: ask again")
	}
	if m.Revision() < latest { // the store cannot be followed
		scope.Release()
		return nil, nil, fault.New(fault.Unavailable, "what was written last cannot be seen: ask again")
	}
	return m, scope.Release, nil
}
