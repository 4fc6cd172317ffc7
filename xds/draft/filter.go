package draft

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/plan"
)

// Pack puts the configuration of an extension into an Any; equal messages yield equal bytes.
// It fails for a message that breaks the rules of its proto.
func Pack(m proto.Message) (*anypb.Any, error) { return plan.Pack(m) }

// Literal escapes text for the fields that Envoy formats, such as values of headers that a
// route adds.
func Literal(s string) string { return plan.Literal(s) }

// HTTPFilter makes an HTTP filter from its name and configuration.
func HTTPFilter(name string, m proto.Message) (*hcmv3.HttpFilter, error) {
	packed, err := Pack(m)
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed}}, nil
}

// NetworkFilter makes a network filter from its name and configuration.
func NetworkFilter(name string, m proto.Message) (*listenerv3.Filter, error) {
	packed, err := Pack(m)
	if err != nil {
		return nil, err
	}
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed}}, nil
}
