package edge

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// adapter is one way in which a gateway has the filter. It says what Envoy is told so that the
// filter does its work, and what Envoy does itself because that filter cannot. Listeners,
// routes and the table ask it wherever ways differ, and ask for no mode.
type adapter interface {
	// listener returns what comes before the router on connections with a scheme, http or
	// https, of clients that are trusted, or are not. Together they see to it that an upstream
	// learns of nothing that only a gateway may say.
	listener(scheme string, trusted bool) (early []*corev3.TypedExtensionConfig, filters []*hcmv3.HttpFilter, err error)
	// route returns what a route with an encoded chain says to the filter. An error means that
	// the filter cannot carry the chain out, so the route must refuse every request.
	route(encoded []byte) (tell, error)
	// unchained has a route say that it has no chain, unless it says that it has one. The
	// filter refuses the requests of a route that says neither.
	unchained(r *routev3.Route) error
	// tableName is the name of the route table that the listeners subscribe to. What a listener
	// leaves to the filter the table must not leave to another one: a proxy that keeps the
	// listeners of another mode, because it refuses those of this one, must not get its table.
	tableName() string
	// strips reports whether the filter strips prefixes where there is a chain.
	strips() bool
	// table says to the filter what a table carries for all of its routes.
	table(config *routev3.RouteConfiguration, chains map[string][]byte) error
	// handedOver returns the first branches of a table, for requests that the filter hands
	// over to the OAuth server. Nothing that a client sends takes them.
	handedOver() ([]branch, error)
}

// tell puts on a route what it says to the filter. strip is nil where nothing is stripped, or
// where Envoy does it.
type tell func(r *routev3.Route, strip *contract.Strip)

// adapterOf returns the adapter of a mode. Without one there are no listeners.
func adapterOf(m contract.Mode) (adapter, error) {
	switch m {
	case contract.ModeModule:
		return module{}, nil
	case contract.ModeExtAuthz:
		return extAuthz{}, nil
	case contract.ModeGolang:
		return golang{}, nil
	}
	return nil, fmt.Errorf("there is no filter of the mode %q", m)
}

// filtered is the chain of a route with what the route says of it. The zero value is a route
// without a chain.
type filtered struct {
	chain []byte // encoded
	tell  tell
}

// filteredBy has an adapter carry a chain; nil is none.
func filteredBy(how adapter, encoded []byte) (filtered, error) {
	if encoded == nil {
		return filtered{}, nil
	}
	told, err := how.route(encoded)
	return filtered{encoded, told}, err
}

// on completes a route.
func (f filtered) on(r *routev3.Route, strip *contract.Strip) {
	if f.chain != nil {
		f.tell(r, strip)
	}
}
