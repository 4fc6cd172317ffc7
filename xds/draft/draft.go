package draft

import (
	"fmt"
	"iter"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Cluster is one upstream cluster.
type Cluster struct {
	Proto *clusterv3.Cluster
	// HTTP are the options of its HTTP connections; frozen into
	// typed_extension_protocol_options. Never nil.
	HTTP *upstreamsv3.HttpProtocolOptions
	// Service and Protocol of the destination, such as http.
	Service, Protocol string
}

// Outbound is the listener through which a workload reaches one service. Either
// HTTP or TCP is set.
type Outbound struct {
	Proto *listenerv3.Listener
	// HTTP routes by a route table of its own, named by RDS.
	HTTP    *hcmv3.HttpConnectionManager
	Filters Slots
	TCP     *tcpv3.TcpProxy
	// Mesh is the name of the mesh. Service and Protocol are those of the destination.
	Mesh, Service, Protocol string
	// Source is the service of the proxies, and Zone their zone. Both are empty unless a
	// policy looks at them.
	Source, Zone string
	// Bare as in [Inbound]; it is only set for gateways.
	Bare bool
}

// Inbound is the filter chains of one inbound, which its replicas share. Either
// HTTP or TCP is set. What is in Authenticated parts runs only on connections
// whose peer has proved who it is; on others there is no identity to judge.
type Inbound struct {
	HTTP                 *hcmv3.HttpConnectionManager
	Filters              Slots
	AuthenticatedFilters Slots
	TCP                  *tcpv3.TcpProxy
	AuthenticatedNetwork []*listenerv3.Filter
	// Peers are whose certificates the handshake of authenticated connections of TCP
	// takes: those of which any name meets any matcher. Each matcher demands a name that
	// says which mesh it is of. Empty is every proxy of the mesh.
	Peers []*matcherv3.StringMatcher
	// Mesh, Service and Protocol of the inbound; Zone if it has one.
	Mesh, Service, Protocol, Zone string
	// MutualTLS says that there are authenticated connections.
	MutualTLS bool
	// NoOpaque closes connections that cannot be looked into: those with TLS of
	// the workload's own.
	NoOpaque bool
	// Bare says that the proxy lacks the token filter: a listener that names it
	// would be refused.
	Bare bool
}

// Routes is one route table with its one virtual host.
type Routes struct {
	Proto *routev3.RouteConfiguration
	Host  *routev3.VirtualHost
	// Mesh, Service and Protocol as in the listener that names the table.
	Mesh, Service, Protocol string
	// MutualTLS as in [Inbound]; false on outbounds and on listeners of gateways.
	MutualTLS bool
	// Plugins are the ids of the plugin instances whose chains the table
	// carries: the control plane answers questions about tokens for no others.
	Plugins []string
	// Bare as in [Inbound].
	Bare bool
}

// Configure sets the configuration of a filter for everything in the table.
func (r *Routes) Configure(filter string, m proto.Message) error {
	packed, err := Pack(m)
	if err != nil {
		return err
	}
	if r.Host.TypedPerFilterConfig == nil {
		r.Host.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	r.Host.TypedPerFilterConfig[filter] = packed
	return nil
}

// Clone is another draft of the same.
func (r *Routes) Clone() *Routes {
	own := *r
	own.Proto = proto.CloneOf(r.Proto)
	own.Host, own.Plugins = own.Proto.GetVirtualHosts()[0], slices.Clone(r.Plugins)
	return &own
}

// Carry has each route say itself what is said of all of them, and how long its streams
// may be idle, if there is a limit, so that it may stand among the routes of others. What
// a route cannot say is an error.
func (r *Routes) Carry(idle *durationpb.Duration) error {
	for _, route := range r.Host.GetRoutes() {
		if a := route.GetRoute(); a != nil {
			if a.RetryPolicy == nil {
				a.RetryPolicy = r.Host.GetRetryPolicy()
			}
			if a.IdleTimeout == nil {
				a.IdleTimeout = idle
			}
		}
		for filter, config := range r.Host.GetTypedPerFilterConfig() {
			if route.TypedPerFilterConfig == nil {
				route.TypedPerFilterConfig = map[string]*anypb.Any{}
			}
			if route.TypedPerFilterConfig[filter] == nil {
				route.TypedPerFilterConfig[filter] = config
			}
		}
	}
	r.Host.RetryPolicy, r.Host.TypedPerFilterConfig = nil, nil
	if plain := (&routev3.VirtualHost{Name: r.Host.GetName(), Domains: r.Host.GetDomains(), Routes: r.Host.GetRoutes()}); !proto.Equal(plain, r.Host) {
		return fmt.Errorf("what is said of the virtual host of %s cannot be said of a route", r.Service)
	}
	return nil
}

// Actions yields the actions of the routes that lead to clusters.
func (r *Routes) Actions() iter.Seq[*routev3.RouteAction] {
	return func(yield func(*routev3.RouteAction) bool) {
		for _, route := range r.Host.GetRoutes() {
			if a := route.GetRoute(); a != nil && !yield(a) {
				return
			}
		}
	}
}
