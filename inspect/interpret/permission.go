package interpret

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	textPermitted = "the caller may call this service"
	textForbidden = "the caller may not call this service"
)

// connectionPermission runs a filter that permits connections.
func connectionPermission(out *Passage, f *listenerv3.Filter, peer []string) error {
	if !f.GetTypedConfig().MessageIs((*netrbacv3.RBAC)(nil)) {
		return unsaid("the network filter %s is not known", f.GetName())
	}
	rules, err := unpack(f.GetTypedConfig(), new(netrbacv3.RBAC))
	if err != nil {
		return err
	}
	return out.judge(f.GetName(), rules.GetRules(), rules.GetShadowRules(), peer, 0)
}

// requestPermission runs a filter that permits requests.
func requestPermission(out *Passage, f *hcmv3.HttpFilter, own *anypb.Any, peer []string) error {
	config, err := unpack(f.GetTypedConfig(), new(httprbacv3.RBAC))
	if err != nil {
		return err
	}
	if own != nil {
		per, err := unpack(own, new(httprbacv3.RBACPerRoute))
		if err != nil {
			return err
		}
		if config = per.GetRbac(); config == nil {
			return nil // the route switches it off
		}
		if err := understood(config); err != nil {
			return err
		}
	}
	return out.judge(f.GetName(), config.GetRules(), config.GetShadowRules(), peer, 403)
}

// judge applies rules to a caller. The status is that of a refusal.
func (p *Passage) judge(name string, rules, shadow *rbacv3.RBAC, peer []string, status uint32) error {
	if rules == nil {
		return nil
	}
	ok, err := permits(rules, peer)
	if err != nil {
		return err
	}
	if !ok {
		p.refuse(StepPermission, name, status, textForbidden)
		return nil
	}
	text := textPermitted
	if shadow != nil {
		sure, err := permits(shadow, peer)
		if err != nil {
			return err
		}
		if !sure {
			text += ", and the log notes that it would be refused"
		}
	}
	p.say(Step{Kind: StepPermission, Name: name, Text: text})
	return nil
}

// permits reports whether rules permit a caller.
func permits(rules *rbacv3.RBAC, peer []string) (bool, error) {
	if err := understood(rules); err != nil {
		return false, err
	}
	if rules.GetAction() != rbacv3.RBAC_ALLOW {
		return false, unsaid("rules that do not permit")
	}
	for _, p := range rules.GetPolicies() {
		if err := understood(p); err != nil {
			return false, err
		}
		for _, permission := range p.GetPermissions() {
			if err := understood(permission); err != nil {
				return false, err
			}
		}
		if ok, err := anyPrincipal(p.GetPrincipals(), peer); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func anyPrincipal(ps []*rbacv3.Principal, peer []string) (bool, error) {
	for _, p := range ps {
		if ok, err := principal(p, peer); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func principal(p *rbacv3.Principal, peer []string) (bool, error) {
	if err := understood(p); err != nil {
		return false, err
	}
	switch id := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return id.Any, nil
	case *rbacv3.Principal_AndIds:
		for _, one := range id.AndIds.GetIds() {
			if ok, err := principal(one, peer); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case *rbacv3.Principal_OrIds:
		return anyPrincipal(id.OrIds.GetIds(), peer)
	case *rbacv3.Principal_NotId:
		ok, err := principal(id.NotId, peer)
		return !ok, err
	case *rbacv3.Principal_Authenticated_:
		return authenticated(id.Authenticated, peer)
	}
	return false, unsaid("whom a rule is about")
}

// authenticated reports whether one of the names of a certificate matches.
func authenticated(a *rbacv3.Principal_Authenticated, peer []string) (bool, error) {
	if err := understood(a); err != nil {
		return false, err
	}
	if a.GetPrincipalName() == nil {
		return len(peer) > 0, nil
	}
	for _, name := range peer {
		if ok, err := text(a.GetPrincipalName(), name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// configured returns what a route says to a filter, the most specific first; nil for nothing.
func configured(name string, route *routev3.Route, host *routev3.VirtualHost) *anypb.Any {
	if own := route.GetTypedPerFilterConfig()[name]; own != nil {
		return own
	}
	return host.GetTypedPerFilterConfig()[name]
}
