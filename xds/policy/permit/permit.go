// Package permit is what the policies share that say who may call an inbound: callers, by the
// names in their certificates, and the rules of Envoy that let them pass.
package permit

import (
	"fmt"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
)

const (
	httpFilter    = "envoy.filters.http.rbac"
	networkFilter = "envoy.filters.network.rbac"
	// allowed is the only key in the rules. With the name of the resource as the key, equal
	// rules would differ.
	allowed = "allowed"
)

// Permission says who may call. The zero value lets nobody pass.
type Permission struct {
	// rules let callers pass. shadow, if there are any, only count and log.
	rules, shadow *rbacv3.RBAC
	// peers are those whose handshake is accepted.
	peers []*matcherv3.StringMatcher
}

// Nobody permits nobody.
func Nobody(meshName string) *Permission { return permission(meshName, nil) }

// Sources permits the callers that some sources select. Too many are an error, which closes the
// inbound.
func Sources(meshName string, sources []mesh.Selector) (*Permission, error) {
	if len(sources) > maxTerms {
		return nil, fmt.Errorf("the permission has %d sources, and %d are possible", len(sources), maxTerms)
	}
	return permission(meshName, callers(meshName, sources)), nil
}

func permission(meshName string, may []caller) *Permission {
	return &Permission{rules: rules(principals(may)), peers: peers(meshName, may)}
}

// Judgement says whether the callers with some tags may pass.
type Judgement struct {
	Source mesh.Tags
	// Allow lets them pass. Doubt notes that they should not pass.
	Allow, Doubt bool
}

// maxTerms bounds the size of rules. Envoy looks at one term after another, and each inbound has its
// own copy.
const maxTerms = 5000

// Judged permits the callers of whom the first judgement that is about them says so. Nobody
// else passes.
func Judged(meshName string, js []Judgement) (*Permission, error) {
	who, err := judged(meshName, js, func(j Judgement) bool { return j.Allow })
	if err != nil {
		return nil, err
	}
	p := &Permission{rules: rules(who), peers: peers(meshName, greeted(meshName, js))}
	for _, j := range js {
		if !j.Allow || !j.Doubt {
			continue
		}
		sure, err := judged(meshName, js, func(j Judgement) bool { return j.Allow && !j.Doubt })
		if err != nil {
			return nil, err
		}
		p.shadow = rules(sure)
		break
	}
	return p, nil
}

// greeted returns the callers that may pass, as far as handshakes tell them apart.
func greeted(meshName string, js []Judgement) (may []caller) {
	for _, j := range js {
		if c := callerOf(meshName, j.Source); c != nil && j.Allow {
			may = append(may, c)
		}
	}
	return may
}

// judged returns principals for those whose first judgement is good. Those of a good judgement
// are excepted who belong to a bad one before it. Judgements with the same exceptions share
// them.
func judged(meshName string, js []Judgement, good func(Judgement) bool) (out []*rbacv3.Principal, err error) {
	var barred, group []caller
	terms := 0
	flush := func() {
		if len(group) > 0 {
			terms += len(barred) + len(group)
		}
		// What is too much is counted and not made.
		if len(group) > 0 && terms <= maxTerms {
			out = append(out, except(principals(group), principals(barred))...)
		}
		group = nil
	}
	for _, j := range js {
		c := callerOf(meshName, j.Source)
		switch {
		case c == nil: // nobody has these tags
		case good(j):
			group = append(group, c)
		default:
			flush()
			barred = append(barred, c)
		}
	}
	if flush(); terms > maxTerms {
		return nil, fmt.Errorf("the rules have %d terms, and %d are possible", terms, maxTerms)
	}
	return out, nil
}

// except returns principals for those of some who are not of others.
func except(some, others []*rbacv3.Principal) []*rbacv3.Principal {
	if len(others) == 0 {
		return some
	}
	not := &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: anyOf(others)}}
	return []*rbacv3.Principal{{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{
		Ids: []*rbacv3.Principal{anyOf(some), not},
	}}}}
}

func anyOf(some []*rbacv3.Principal) *rbacv3.Principal {
	if len(some) == 1 {
		return some[0]
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: some}}}
}

// Inbound adds the filters; judge returns who may call. For HTTP it is not asked: the routes say
// who may pass, because changes of routes also apply to connections that are already open. The
// filter's own rules let nobody pass: routes without rules are a mistake, or date from before
// mutual TLS was enabled. After a switch to PERMISSIVE, clients use mutual TLS only once the
// server has confirmed both, so this refuses nobody. A direct switch to STRICT may refuse requests
// for the moment between the two.
func Inbound(d *draft.Inbound, judge func() (*Permission, error)) error {
	switch {
	case !d.MutualTLS:
		return nil
	case d.HTTP != nil:
		f, err := draft.HTTPFilter(httpFilter, &httprbacv3.RBAC{Rules: rules(nil)})
		if err != nil {
			return err
		}
		return d.AuthenticatedFilters.Put(draft.SlotAccess, f)
	}
	p, err := judge()
	if err != nil {
		return err
	}
	// Envoy asks the filter only when the first byte of the client arrives. A client that
	// waits for the workload to speak first would have received data by then, so the handshake
	// checks as well.
	d.Peers = p.peers
	// Envoy records for the access log only the decisions of shadow rules.
	noted := p.shadow
	if noted == nil {
		noted = p.rules
	}
	f, err := draft.NetworkFilter(networkFilter, &netrbacv3.RBAC{
		StatPrefix: "inbound_" + statName(d.Service) + ".", Rules: p.rules, ShadowRules: noted,
	})
	if err != nil {
		return err
	}
	d.AuthenticatedNetwork = append(d.AuthenticatedNetwork, f)
	return nil
}

// InboundRoutes adds the rules to the routes.
func (p *Permission) InboundRoutes(r *draft.Routes) error {
	if !r.MutualTLS {
		return nil
	}
	return r.Configure(httpFilter, &httprbacv3.RBACPerRoute{Rbac: &httprbacv3.RBAC{Rules: p.rules, ShadowRules: p.shadow}})
}

// rules returns rules that permit principals.
func rules(who []*rbacv3.Principal) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if len(who) > 0 {
		out.Policies = map[string]*rbacv3.Policy{allowed: {
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}},
			Principals:  who,
		}}
	}
	return out
}

// statName makes a part of a statistic's name.
func statName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}
