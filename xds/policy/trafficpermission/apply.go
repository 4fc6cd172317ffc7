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
	// allowed is the only key in the rules. With the name of the resource as the key, equal
	// rules would differ.
	allowed = "allowed"
)

// inbound adds the filters. For HTTP, the routes say who may pass, because changes of routes
// also apply to connections that are already open. The filter's own rules let nobody pass:
// routes without rules are a mistake, or date from before mutual TLS was enabled. After a
// switch to PERMISSIVE, clients use mutual TLS only once the server has confirmed both, so
// this refuses nobody. A direct switch to STRICT may refuse requests for the moment between
// the two.
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
	// Envoy asks the filter only when the first byte of the client arrives. A client that
	// waits for the workload to speak first would have received data by then, so the handshake
	// checks as well.
	may := chosen(d.Mesh, s)
	d.Peers = peers(d.Mesh, may)
	// Envoy records for the access log only the decisions of shadow rules.
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

// chosen returns the callers that the chosen policy permits, or nobody if none is chosen.
func chosen(mesh string, s *policy.Selection) []caller {
	if s == nil {
		return nil
	}
	return callers(mesh, policy.First[Spec](s).Sources)
}

// rules returns rules that permit callers.
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
