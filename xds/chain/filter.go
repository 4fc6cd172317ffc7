package chain

import (
	"encoding/json"
	"fmt"

	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/dynamic_modules/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// module names the shared library, lib<name>.so, and its statistics. The library stays loaded,
// because Go code cannot be unloaded.
func module() *modulev3.DynamicModuleConfig {
	return &modulev3.DynamicModuleConfig{Name: contract.FilterName, DoNotClose: true, MetricsNamespace: contract.FilterName}
}

// Filter returns the dynamic module in a listener. It runs on every route. Where there is a
// chain it decides, and everywhere it removes headers that clients must not set, and writes
// what f says of the origin of a request, in one pass.
func Filter(f contract.Forwarding) (*hcmv3.HttpFilter, error) {
	settings, err := json.Marshal(contract.FilterConfig{Forwarding: f})
	if err != nil {
		return nil, fmt.Errorf("encode filter configuration: %w", err)
	}
	config, err := plan.Pack(wrapperspb.String(string(settings)))
	if err != nil {
		return nil, err
	}
	return httpFilter(contract.FilterName, &filterv3.DynamicModuleFilter{
		DynamicModuleConfig: module(), FilterName: contract.FilterName, FilterConfig: config,
	})
}

// PerRoute passes an encoded chain to the dynamic module, on a route or a virtual host. filter_name
// names the filter, because per_route_config_name is deprecated since 1.38.
func PerRoute(encoded []byte) (*filterv3.DynamicModuleFilterPerRoute, error) {
	config, err := plan.Pack(wrapperspb.String(string(encoded)))
	if err != nil {
		return nil, err
	}
	return &filterv3.DynamicModuleFilterPerRoute{
		DynamicModuleConfig: module(), FilterName: contract.FilterName, FilterConfig: config,
	}, nil
}

func httpFilter(name string, config proto.Message) (*hcmv3.HttpFilter, error) {
	packed, err := plan.Pack(config)
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed}}, nil
}
