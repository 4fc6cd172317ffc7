package edge

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// module is the dynamic module. It sees every request, so it cleans headers and strips
// prefixes itself: what clients claim is still there when a route is selected.
type module struct{}

func (module) listener(_ string, trusted bool) ([]*corev3.TypedExtensionConfig, []*hcmv3.HttpFilter, error) {
	forwarding := contract.ForwardingPeer
	if trusted {
		forwarding = contract.ForwardingTrusted
	}
	f, err := chain.Filter(forwarding)
	return nil, []*hcmv3.HttpFilter{f}, err
}

// route names the chain, which the table carries, in the metadata of the route.
func (module) route(encoded []byte) (tell, error) {
	return func(r *routev3.Route, strip *contract.Strip) {
		says := contract.Carried{Content: contract.ChainContent(encoded), Strip: strip}
		inform(r, says.String())
	}, nil
}

// inform has a route say something to the module.
func inform(r *routev3.Route, says string) {
	if r.Metadata == nil {
		r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{contract.MetadataNamespace: {Fields: map[string]*structpb.Value{}}}}
	}
	r.Metadata.FilterMetadata[contract.MetadataNamespace].Fields[contract.MetaFilter] = structpb.NewStringValue(says)
}

func (module) unchained(r *routev3.Route) error {
	if r.GetMetadata().GetFilterMetadata()[contract.MetadataNamespace].GetFields()[contract.MetaFilter] == nil {
		inform(r, contract.NoChain)
	}
	return nil
}

func (module) tableName() string { return tableName }

func (module) strips() bool { return true }

func (module) table(config *routev3.RouteConfiguration, chains map[string][]byte) (err error) {
	config.TypedPerFilterConfig, err = carried(chains)
	return err
}

// handedOver selects by filter state that the module sets. No part of a request becomes filter
// state.
func (m module) handedOver() ([]branch, error) {
	issuer, err := leadTo(m, issuing())
	if err != nil {
		return nil, err
	}
	return []branch{{equals(oauthInput, contract.StateHandedOver, false), issuer}}, nil
}

// carried gives the module the chains of a table, once each; the routes name theirs.
func carried(chains map[string][]byte) (map[string]*anypb.Any, error) {
	if len(chains) == 0 {
		return nil, nil
	}
	var all [][]byte
	for _, text := range slices.Sorted(maps.Keys(chains)) {
		all = append(all, chains[text])
	}
	text, err := contract.MarshalChains(all)
	if err != nil {
		return nil, err
	}
	config, err := chain.PerRoute(text)
	if err != nil {
		return nil, err
	}
	packed, err := plan.Pack(config)
	return map[string]*anypb.Any{contract.FilterName: packed}, err
}
