package edge

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// golang is the library for Envoy's filter for Go. It removes trailers itself, and leaves
// headers to the listener.
type golang struct{ cleaned }

func (a golang) listener(_ string, trusted bool) (early []*corev3.TypedExtensionConfig, filters []*hcmv3.HttpFilter, err error) {
	if early, err = a.early(trusted); err != nil {
		return nil, nil, err
	}
	mutation, err := chain.Cleaning(client(), nil)
	if err != nil {
		return nil, nil, err
	}
	f, err := chain.Golang()
	return early, []*hcmv3.HttpFilter{mutation, f}, err
}

func (golang) route(encoded []byte) (tell, error) {
	config, err := chain.GolangPerRoute(encoded)
	if err != nil {
		return nil, err
	}
	packed, err := plan.Pack(config)
	return func(r *routev3.Route, _ *contract.Strip) {
		say(r, contract.GolangFilter, packed)
	}, err
}

// unchained has the library let pass what it is shown. It refuses the requests of routes that
// say nothing.
func (golang) unchained(r *routev3.Route) error {
	if r.TypedPerFilterConfig[contract.GolangFilter] != nil {
		return nil
	}
	config, err := chain.GolangUnchained()
	if err != nil {
		return err
	}
	packed, err := plan.Pack(config)
	say(r, contract.GolangFilter, packed)
	return err
}

func (golang) tableName() string { return tableName + ":" + string(contract.ModeGolang) }

// handedOver selects by the header that the library sets. That of a client is gone before a
// route is selected, and the library refuses if the route leads elsewhere.
func (a golang) handedOver() ([]branch, error) { return a.cleaned.handedOver(a, saysOAuth()) }
