package edge

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// cleaned is what the adapters have in common for which Envoy does what the module does
// itself: it cleans headers before a route is selected, and strips prefixes. Each route
// carries its own chain.
type cleaned struct{}

func (cleaned) strips() bool { return false }

func (cleaned) table(*routev3.RouteConfiguration, map[string][]byte) error { return nil }

// early returns the changes of headers that run on every request before Envoy selects a route
// and sets its own headers. What clients must not say goes, in every spelling.
func (cleaned) early(trusted bool) ([]*corev3.TypedExtensionConfig, error) {
	config, err := plan.Pack(&earlyv3.HeaderMutation{Mutations: append(chain.Removals(), origin(trusted)...)})
	if err != nil {
		return nil, err
	}
	return []*corev3.TypedExtensionConfig{{
		Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: config,
	}}, nil
}

// asked are the headers that tell upstreams what the client requested, without the query,
// which may hold credentials.
var asked = []struct{ name, value string }{
	{headerForwardedHost, "%REQ(:AUTHORITY)%"},
	{headerForwardedPath, "%PATH(NQ:PATH)%"},
}

// origin changes the headers that tell where a request comes from. What a trusted client says
// is completed. What others say is removed first: a value that is empty, such as that of an
// empty Host, overwrites nothing.
func origin(trusted bool) []*mutationv3.HeaderMutation {
	out := []*mutationv3.HeaderMutation{remove(headerRealIP)}
	if !trusted {
		// Envoy then writes the address of the peer as the only one.
		for _, name := range []string{headerForwardedFor, headerForwardedHost, headerForwardedPath, headerForwardedPrefix, headerForwarded} {
			out = append(out, remove(name))
		}
	}
	for _, h := range asked {
		option := overwrite(h.name, h.value)
		option.AppendAction = corev3.HeaderValueOption_ADD_IF_ABSENT
		out = append(out, set(option))
	}
	return out
}

// client changes X-Real-IP when Envoy knows the address of the client, which is after early
// changes.
func client() []*mutationv3.HeaderMutation {
	return []*mutationv3.HeaderMutation{set(overwrite(headerRealIP, "%REQ("+headerPeer+")%"))}
}

// handedOver leads what a predicate is true of to the OAuth server, and tells that the
// X-Forwarded-Proto of trusted clients and of no others.
func (cleaned) handedOver(how adapter, is predicate) ([]branch, error) {
	told := issuing()
	told.RequestHeadersToAdd = []*corev3.HeaderValueOption{overwrite(contract.HeaderOAuthProto, "%REQ("+headerForwardedProto+")%")}
	trusted, err := leadTo(how, told)
	if err != nil {
		return nil, err
	}
	others, err := leadTo(how, issuing())
	return []branch{{allOf([]predicate{equals(trustedInput, isTrusted, false), is}), trusted}, {is, others}}, err
}

func remove(name string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}}
}

func set(option *corev3.HeaderValueOption) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: option}}
}

// say has a route say something to a filter of Envoy.
func say(r *routev3.Route, filter string, config *anypb.Any) {
	r.TypedPerFilterConfig = map[string]*anypb.Any{filter: config}
}
