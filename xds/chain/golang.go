package chain

import (
	"encoding/json"
	"fmt"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// Golang returns the filter for Go of Envoy's contrib build, in a listener that removes what
// clients must not say from headers; from trailers the library removes it. The agent of the
// proxy puts in the path of its own library. Settings come from the file that
// contract.SettingsEnv names.
func Golang() (*hcmv3.HttpFilter, error) {
	config, err := document(contract.GolangListener, contract.FilterConfig{ListenerStrips: true, Marked: true})
	if err != nil {
		return nil, err
	}
	return httpFilter(contract.GolangFilter, &golangv3.Config{
		LibraryId: contract.FilterName, LibraryPath: contract.GolangLibrary, PluginName: contract.FilterName, PluginConfig: config,
		MergePolicy: golangv3.Config_MERGE_VIRTUALHOST_ROUTER_FILTER,
	})
}

// GolangPerRoute passes an encoded chain to the library.
func GolangPerRoute(encoded []byte) (*golangv3.ConfigsPerRoute, error) {
	config, err := document(contract.GolangChain, json.RawMessage(encoded))
	if err != nil {
		return nil, err
	}
	return perRoute(config), nil
}

// GolangUnchained says to the library that a route has no chain.
func GolangUnchained() (*golangv3.ConfigsPerRoute, error) {
	config, err := document(contract.GolangDisabled, true)
	if err != nil {
		return nil, err
	}
	return perRoute(config), nil
}

func perRoute(config *anypb.Any) *golangv3.ConfigsPerRoute {
	return &golangv3.ConfigsPerRoute{PluginsConfig: map[string]*golangv3.RouterPlugin{
		contract.FilterName: {Override: &golangv3.RouterPlugin_Config{Config: config}},
	}}
}

// document is a configuration of the filter with one member.
func document(member string, value any) (*anypb.Any, error) {
	text, err := json.Marshal(map[string]any{member: value})
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of the filter: %w", err)
	}
	object := new(structpb.Struct)
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("encode the configuration of the filter: %w", err)
	}
	return plan.Pack(object)
}
