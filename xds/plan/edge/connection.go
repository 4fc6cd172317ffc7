package edge

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	factsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"

	"github.com/meshgate/meshgate/xds/plan"
)

// These are facts about a connection that routes match. They are filter state, set once per
// connection, because a route table can otherwise match only headers. If a listener does not
// set them, routes that require them do not match.
const (
	// factPort is the port of the listener.
	factPort = "meshgate.listener_port"
	// factServerName is serverNamed followed by the name that the client requested in TLS, in
	// lower case, or noTLS.
	factServerName = "meshgate.server_name"
	// factTrusted is isTrusted if the client is, and not there otherwise.
	factTrusted = "meshgate.trusted"
)

const isTrusted = "true"

const (
	serverNamed = "sni:"
	noTLS       = "cleartext"
)

// connectionFacts returns the network filter that sets the facts. It comes before the
// connection manager; on https it needs the TLS inspector.
func connectionFacts(e endpoint, trusted bool) (*listenerv3.Filter, error) {
	name := noTLS
	if e.scheme == "https" {
		name = serverNamed + "%REQUESTED_SERVER_NAME%"
	}
	facts := []*factsv3.FilterStateValue{fact(factPort, fmt.Sprint(e.port)), fact(factServerName, name)}
	if trusted {
		facts = append(facts, fact(factTrusted, isTrusted))
	}
	config, err := plan.Pack(&statev3.Config{OnNewConnection: facts})
	if err != nil {
		return nil, err
	}
	return &listenerv3.Filter{
		Name: "envoy.filters.network.set_filter_state", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
	}, nil
}

func fact(key, format string) *factsv3.FilterStateValue {
	return &factsv3.FilterStateValue{
		Key: &factsv3.FilterStateValue_ObjectKey{ObjectKey: key}, FactoryKey: "envoy.string",
		Value: &factsv3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: format},
			}},
		}},
	}
}
