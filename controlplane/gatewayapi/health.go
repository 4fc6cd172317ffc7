package gatewayapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Proxies reads what the gateways' Envoys report.
type Proxies interface {
	// Clusters calls read with the answer of each connected gateway to GET /clusters?format=json,
	// one at a time, in any order. read must not keep the text. Gateways that are away are left
	// out.
	Clusters(ctx context.Context, scope string, read func(node string, text []byte))
}

// The states of a target, in the words that tools know.
const (
	healthOff = "HEALTHCHECKS_OFF"
	healthy   = "HEALTHY"
	unhealthy = "UNHEALTHY"
	// healthName is the state of a name that a gateway could not resolve.
	healthName = "DNS_ERROR"
)

// healthEndpoint returns the endpoint that tells how gateways see the targets of an upstream.
func (a *API) healthEndpoint() (httpkit.Endpoint, bool) {
	targets, ok := a.byKind[gateway.Targets.Name]
	if !ok {
		return httpkit.Endpoint{}, false
	}
	p := place{api: a, collection: targets, nested: true, address: func(r *http.Request) admit.Address {
		return admit.Address{Kind: gateway.Targets, Scope: a.scope(r), Under: &admit.Relation{
			Ref: gateway.RefUpstream, Address: admit.Address{Kind: gateway.Upstreams, Scope: a.scope(r), Key: r.PathValue(pathOwner)},
		}}
	}}
	e := p.lists(endpoint(http.MethodGet, "/"+gateway.Upstreams.Path+"/{"+pathOwner+"}/health", "How gateways see the targets of an upstream", p.health))
	e.Contract.Answers[http.StatusOK] = schemaHealth
	return e, true
}

// health answers with a page of targets and their health.
func (p place) health(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	var got page
	var up *model.Resource
	services := map[string]bool{}
	err = p.api.Store.View(r.Context(), func(reader store.Reader) error {
		if up, err = admit.Lookup(reader, p.address(r).Under.Address); err != nil {
			return err
		}
		host := strings.ToLower(up.Spec.(*gateway.Upstream).Name)
		using, err := store.ListAll(reader, gateway.Services, store.Query{Scope: p.api.scope(r), Index: gateway.IndexHost, Value: host})
		if err != nil {
			return err
		}
		for _, s := range using {
			services[s.Name] = true
		}
		got, err = p.page(reader, r, query)
		return err
	})
	if err != nil {
		p.api.fail(w, r, err, call{})
		return
	}
	checked := up.Spec.(*gateway.Upstream).Checked()
	var seen sightings
	if p.api.Proxies != nil && len(services) > 0 && (checked || slices.ContainsFunc(got.resources, namedTarget)) {
		p.api.Proxies.Clusters(r.Context(), p.api.scope(r), func(node string, text []byte) { seen.read(node, text, services) })
	}
	p.writePage(w, r, got, query, func(res *model.Resource, entity map[string]any) {
		t := res.Spec.(*gateway.UpstreamTarget)
		if checked {
			entity["health"], entity["data"] = seen.of(t)
		} else {
			entity["health"], entity["data"] = seen.unchecked(t)
		}
	})
}

// namedTarget reports whether a target is a name. A gateway may be unable to resolve it, even
// without health checks.
func namedTarget(res *model.Resource) bool {
	t, readable := res.Spec.(*gateway.UpstreamTarget)
	return readable && t.Named()
}
