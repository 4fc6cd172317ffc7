package edge

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// extAuthz is an authorization service, which Envoy asks. It sees the requests of routes with a
// chain only, and no trailers.
type extAuthz struct{ cleaned }

func (a extAuthz) listener(scheme string, trusted bool) (early []*corev3.TypedExtensionConfig, filters []*hcmv3.HttpFilter, err error) {
	if early, err = a.early(trusted); err != nil {
		return nil, nil, err
	}
	mutation, err := chain.Cleaning(client(), chain.TrailerRemovals())
	if err != nil {
		return nil, nil, err
	}
	asking, err := chain.Authz(scheme)
	return early, append([]*hcmv3.HttpFilter{mutation}, asking...), err
}

func (extAuthz) route(encoded []byte) (tell, error) {
	config, buffer, err := chain.AuthzPerRoute(encoded)
	if err != nil {
		return nil, err
	}
	packed, err := plan.Pack(config)
	return func(r *routev3.Route, _ *contract.Strip) {
		say(r, contract.ExtAuthzFilter, packed)
		if buffer > 0 {
			r.RequestBodyBufferLimit = wrapperspb.UInt64(buffer)
		}
	}, err
}

// unchained has Envoy not ask. It asks about every other route, and the service refuses what
// names no chain.
func (extAuthz) unchained(r *routev3.Route) error {
	if r.TypedPerFilterConfig[contract.ExtAuthzFilter] != nil {
		return nil
	}
	packed, err := plan.Pack(chain.AuthzUnasked())
	say(r, contract.ExtAuthzFilter, packed)
	return err
}

func (extAuthz) tableName() string { return tableName + ":" + string(contract.ModeExtAuthz) }

// handedOver selects by filter state as the module does, which [chain.Authz] makes of what the
// service says. A request with headers of the hand-over and without that state has passed no
// plugin, so it goes nowhere: those of clients have no such headers any more.
func (a extAuthz) handedOver() ([]branch, error) {
	out, err := a.cleaned.handedOver(a, equals(oauthInput, contract.StateHandedOver, false))
	if err != nil {
		return nil, err
	}
	refused := reply(503, misconfigured)
	refused.Match = everyPath()
	lost, err := leadTo(a, about(refused, contract.Refused, contract.ReasonMisconfigured, nil))
	return append(out, branch{saysOAuth(), lost}), err
}

// saysOAuth is true of requests with the header that names the plugin at a hand-over.
func saysOAuth() predicate { return fits(headerInput(contract.HeaderOAuthPlugin), `\C+`) }
