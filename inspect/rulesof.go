package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// DataplaneRules has the rules of a proxy, or of the proxies of a MeshGateway, by the types of their policies.
type DataplaneRules struct {
	// HTTPMatches is always empty: no rule is about a match of a route.
	HTTPMatches []any `json:"httpMatches"`
	Resource    Named `json:"resource"`
	// Rules are ordered by type.
	Rules []TypeRules `json:"rules"`
}

// Named is the resource that rules are about, or come from.
type Named struct {
	Type string `json:"type"`
	Mesh string `json:"mesh"`
	Name string `json:"name"`
}

// TypeRules are the rules of one type of policies.
type TypeRules struct {
	Type string `json:"type"`
	// ProxyRule is about the proxy as a whole.
	ProxyRule *MatcherRule `json:"proxyRule,omitempty"`
	// ToRules are about what the proxy calls, FromRules about those who call its inbounds.
	ToRules   []MatcherRule `json:"toRules,omitempty"`
	FromRules []FromRule    `json:"fromRules,omitempty"`
}

// FromRule has the rules at one inbound.
type FromRule struct {
	Inbound RuledInbound  `json:"inbound"`
	Rules   []MatcherRule `json:"rules"`
}

// RuledInbound is an inbound.
type RuledInbound struct {
	// Name says where it listens.
	Name string            `json:"name"`
	Tags map[string]string `json:"tags"`
}

// MatcherRule is what policies come to for those whom all matchers match.
type MatcherRule struct {
	Matchers []Matcher `json:"matchers,omitempty"`
	Conf     any       `json:"conf"`
	// Origin are the policies that the conf is from, the best first.
	Origin []Named `json:"origin"`
}

// Matcher matches a tag with a value or, with Not, all others.
type Matcher struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Not   bool   `json:"not"`
}

// RulesOf shows the rules of a dataplane by the types of their policies. They are those of
// [Policies.Rules]. Errors are those of Of.
func (p *Policies) RulesOf(ctx context.Context, meshName, dataplane string, show func(any) error) error {
	byType := rulesByType{}
	return p.places(ctx, meshName, dataplane, func(*view.Mesh, *view.Dataplane, []selection.Place) {}, func(at *selection.Place) {
		byType.add(meshName, at)
	}, func() error {
		return show(byType.about(Named{mesh.Dataplanes.Document.Type, meshName, dataplane}))
	})
}

// RulesOfGateway shows the rules of a MeshGateway by the types of their policies: those that a
// builtin gateway with the tags of its first selector would have. Errors are those of Of.
func (p *Policies) RulesOfGateway(ctx context.Context, meshName, name string, show func(any) error) error {
	return p.With(ctx, meshName, func(m *view.Mesh) error {
		gateway := m.Policy(mesh.MeshGateways, name)
		if gateway == nil {
			return fault.New(fault.NotFound, "gateway %s of mesh %s does not exist", name, meshName)
		}
		byType := rulesByType{}
		if len(gateway.Destinations) > 0 {
			places := selection.Of(m, p.Policies, &view.Dataplane{Spec: &mesh.Dataplane{Networking: &mesh.Networking{
				Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: gateway.Destinations[0]},
			}}})
			for i := range places {
				byType.add(meshName, &places[i])
			}
		}
		return show(byType.about(Named{mesh.MeshGateways.Document.Type, meshName, name}))
	})
}

// rulesByType collects rules by the types of their policies.
type rulesByType map[string]*TypeRules

// add adds the rules of all types at one place.
func (r rulesByType) add(meshName string, at *selection.Place) {
	for _, match := range at.Matches {
		if match.Policy.Rules == nil {
			continue
		}
		kind := match.Policy.Kind.Document.Type
		if r[kind] == nil {
			r[kind] = &TypeRules{Type: kind}
		}
		r[kind].add(at, rulesAt(meshName, at, match))
	}
}

// about returns the document with the rules.
func (r rulesByType) about(resource Named) DataplaneRules {
	doc := DataplaneRules{HTTPMatches: []any{}, Resource: resource, Rules: []TypeRules{}}
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		doc.Rules = append(doc.Rules, *r[kind])
	}
	return doc
}

// add adds the rules at one place.
func (r *TypeRules) add(at *selection.Place, rules []Rule) {
	var out []MatcherRule
	for _, rule := range rules {
		m := MatcherRule{Matchers: matchersOf(rule.Subset), Conf: rule.Conf, Origin: []Named{}}
		for _, o := range rule.Origins {
			m.Origin = append(m.Origin, Named{rule.PolicyType, o.Mesh, o.Name})
		}
		out = append(out, m)
	}
	switch {
	case len(out) == 0:
	case sides[at.Sort] == policy.Proxy:
		r.ProxyRule = &out[0]
	case sides[at.Sort] == policy.Callers:
		in := RuledInbound{Name: cmp.Or(at.Socket, at.Name), Tags: map[string]string{mesh.TagService: at.Service}}
		r.FromRules = append(r.FromRules, FromRule{in, out})
	default:
		for i := range out { // a rule at a place is about the service of that place
			out[i].Matchers = append([]Matcher{{Key: mesh.TagService, Value: at.Service}}, out[i].Matchers...)
		}
		r.ToRules = append(r.ToRules, out...)
	}
}

// matchersOf returns the matchers of the subset of a rule; see [policy.Rule].
func matchersOf(subset map[string]string) (out []Matcher) {
	for _, key := range slices.Sorted(maps.Keys(subset)) {
		for value := range strings.SplitSeq(subset[key], ",") {
			plain, not := strings.CutPrefix(value, "!")
			out = append(out, Matcher{key, plain, not})
		}
	}
	return out
}
