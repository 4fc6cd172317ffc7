package trafficpermission

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

const (
	httpFilter    = "envoy.filters.http.rbac"
	networkFilter = "envoy.filters.network.rbac"
	// allowed is the one key in the rules: the name of the resource would make
	// rules differ that say the same.
	allowed = "allowed"
)

// inbound puts the filters there. Who may pass by that for HTTP is in the routes,
// because what comes with the routes is in force on connections that are open
// already. Its own rules let nobody pass: routes without rules are a mistake, or
// those of before mutual TLS was turned on. In a switch to PERMISSIVE clients use
// mutual TLS only after the server has confirmed both, so none is refused by that;
// a switch straight to STRICT may refuse for the moment between the two.
func inbound(d *draft.Inbound, s *policy.Selection) error {
	switch {
	case !d.MutualTLS:
		return nil
	case d.HTTP != nil:
		f, err := draft.HTTPFilter(httpFilter, &httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}})
		if err != nil {
			return err
		}
		return d.AuthenticatedFilters.Put(draft.SlotAccess, f)
	}
	// Envoy asks the filter when the client's first byte arrives. Whoever waits for the
	// workload to speak first has heard it by then, so the handshake asks, too.
	may := chosen(d.Mesh, s)
	d.Peers = peers(d.Mesh, may)
	// Envoy notes for the access log only what shadow rules decided.
	who := rules(may)
	f, err := draft.NetworkFilter(networkFilter, &netrbacv3.RBAC{
		StatPrefix: "inbound_" + statName(d.Service) + ".", Rules: who, ShadowRules: who,
	})
	if err != nil {
		return err
	}
	d.AuthenticatedNetwork = append(d.AuthenticatedNetwork, f)
	return nil
}

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	if !r.MutualTLS {
		return nil
	}
	return r.Configure(httpFilter, &httprbacv3.RBACPerRoute{Rbac: &httprbacv3.RBAC{Rules: rules(chosen(r.Mesh, s))}})
}

// chosen are those whom the chosen policy permits, nobody if none is chosen.
func chosen(mesh string, s *policy.Selection) []caller {
	if s == nil {
		return nil
	}
	return callers(mesh, policy.First[Spec](s).Sources)
}

// rules permits callers.
func rules(may []caller) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if who := principals(may); len(who) > 0 {
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
