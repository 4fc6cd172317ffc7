package chain

import (
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// Filters returns the HTTP filters of a listener whose clients are connected by a scheme, http
// or https. What they must not say is removed on every route: by the filter itself or, where
// that sees only requests with a chain, by [EarlyRemovals] and a filter for trailers.
func Filters(m contract.Mode, scheme string) ([]*hcmv3.HttpFilter, error) {
	switch m {
	case contract.ModeModule:
		f, err := Filter()
		return []*hcmv3.HttpFilter{f}, err
	case contract.ModeExtAuthz:
		return authzFilters(scheme)
	case contract.ModeGolang:
		return golangFilters()
	}
	return nil, fmt.Errorf("there is no filter of the mode %q", m)
}

// OnRoute is what a route says to the filter. The zero value is a route without a chain.
type OnRoute struct {
	configs map[string]*anypb.Any
	// buffer is how much of a body Envoy must be able to keep, 0 for its default.
	buffer uint64
}

// Any reports whether the filter decides requests of the route.
func (o OnRoute) Any() bool { return len(o.configs) > 0 }

// Apply puts it on a route.
func (o OnRoute) Apply(r *routev3.Route) {
	r.TypedPerFilterConfig = o.configs
	if o.buffer > 0 {
		r.RequestBodyBufferLimit = wrapperspb.UInt64(o.buffer)
	}
}

// Route passes an encoded chain to the filter. An error means that the filter cannot carry it
// out, so the route must refuse every request.
func Route(m contract.Mode, encoded []byte) (o OnRoute, err error) {
	var filter string
	var config proto.Message
	switch m {
	case contract.ModeModule:
		filter = contract.FilterName
		config, err = PerRoute(encoded)
	case contract.ModeExtAuthz:
		filter = contract.ExtAuthzFilter
		config, o.buffer, err = authzRoute(encoded)
	case contract.ModeGolang:
		filter = contract.GolangFilter
		config, err = golangRoute(encoded)
	default:
		err = fmt.Errorf("there is no filter of the mode %q", m)
	}
	if err != nil {
		return OnRoute{}, err
	}
	packed, err := plan.Pack(config)
	if err != nil {
		return OnRoute{}, err
	}
	o.configs = map[string]*anypb.Any{filter: packed}
	return o, nil
}

func httpFilter(name string, config proto.Message) (*hcmv3.HttpFilter, error) {
	packed, err := plan.Pack(config)
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed}}, nil
}
