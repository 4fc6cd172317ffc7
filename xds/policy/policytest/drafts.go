package policytest

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

const (
	meshName = "demo"
	service  = "backend"
)

// OutboundTags are the tags of the sample outbound.
var OutboundTags = mesh.Tags{mesh.TagService: service, "version": "v1"}

// Drafts contains one draft of each sort, as before the first policy.
type Drafts struct {
	Protocol       string
	Split          *draft.Split
	Cluster        *draft.Cluster
	Outbound       *draft.Outbound
	OutboundRoutes *draft.Routes
	Inbound        *draft.Inbound
	InboundRoutes  *draft.Routes
}

// NewDrafts makes drafts for a protocol. Route tables exist only for HTTP.
func NewDrafts(protocol string, mutualTLS bool) *Drafts {
	d := &Drafts{
		Protocol: protocol,
		Cluster: &draft.Cluster{
			Proto: &clusterv3.Cluster{
				Name: service, ConnectTimeout: durationpb.New(time.Second),
				ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
				EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: plan.ADS()},
			},
			HTTP: &upstreamsv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
					},
				},
			}},
			Service: service, Protocol: protocol,
		},
		Outbound: &draft.Outbound{Proto: listener("outbound:127.0.0.1:10001", 10001), Mesh: meshName, Service: service, Protocol: protocol, Source: "web", Zone: "east"},
		Inbound:  &draft.Inbound{Mesh: meshName, Service: service, Protocol: protocol, Zone: "west", MutualTLS: mutualTLS},
	}
	if !mesh.IsHTTP(protocol) {
		d.Outbound.TCP, d.Inbound.TCP = tcp(service), tcp("@localhost:9080")
		return d
	}
	d.Outbound.HTTP, d.Inbound.HTTP = manager("outbound:"+service), manager("inbound:"+service)
	d.OutboundRoutes = routes("outbound:"+service, service, protocol, false)
	d.InboundRoutes = routes("inbound:"+service, "@localhost:9080", protocol, mutualTLS)
	return d
}

// Apply lets a policy edit all drafts. Edits of inbounds also run without a selection if the
// policy says so.
func (d *Drafts) Apply(p *policy.Policy, s *policy.Selection) (err error) {
	step := func(do func() error) {
		if err == nil {
			err = do()
		}
	}
	if s != nil && p.Split != nil {
		step(func() (e error) { d.Split, e = p.Split(s, OutboundTags); return e })
	}
	if s != nil && p.Cluster != nil {
		step(func() error { return p.Cluster(d.Cluster, s) })
	}
	if s != nil && p.Outbound != nil {
		step(func() error { return p.Outbound(d.Outbound, s) })
	}
	if s != nil && p.OutboundRoutes != nil && d.OutboundRoutes != nil {
		step(func() error { return p.OutboundRoutes(d.OutboundRoutes, s) })
	}
	if s == nil && !p.RunsUnchosen() {
		return err
	}
	if p.Inbound != nil {
		step(func() error { return p.Inbound(d.Inbound, s) })
	}
	if p.InboundRoutes != nil && d.InboundRoutes != nil {
		step(func() error { return p.InboundRoutes(d.InboundRoutes, s) })
	}
	return err
}

// Callers lets a policy divide the routes of the inbound by who calls, after all policies had
// their turn with Apply.
func (d *Drafts) Callers(p *policy.Policy, s *policy.Selection) error {
	if s == nil || p.Callers == nil || d.InboundRoutes == nil {
		return nil
	}
	return p.Callers(d.InboundRoutes, s)
}

// Demand lets a policy divide the routes of the inbound once more, after all policies had their
// turn with Callers.
func (d *Drafts) Demand(p *policy.Policy, s *policy.Selection) error {
	if s == nil || p.Demand == nil || d.InboundRoutes == nil {
		return nil
	}
	return p.Demand(d.InboundRoutes, s)
}

func listener(name string, port uint32) *listenerv3.Listener {
	return &listenerv3.Listener{Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
		},
	}}}
}

func tcp(cluster string) *tcpv3.TcpProxy {
	return &tcpv3.TcpProxy{StatPrefix: "sample", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster}}
}

func manager(table string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:     "sample",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: table, ConfigSource: plan.ADS()}},
	}
}

// routes returns a table with a route to a cluster and one that leads to none.
func routes(name, cluster, protocol string, mutualTLS bool) *draft.Routes {
	host := &routev3.VirtualHost{Name: service, Domains: []string{"*"}, Routes: []*routev3.Route{
		{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/teapot"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 418}},
		},
		{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			}},
		},
	}}
	return &draft.Routes{
		Proto: &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{host}}, Host: host,
		Mesh: meshName, Service: service, Protocol: protocol, MutualTLS: mutualTLS,
	}
}

// router returns the filter that ends a chain of HTTP filters.
func router() (*hcmv3.HttpFilter, error) {
	return draft.HTTPFilter("envoy.filters.http.router", &routerv3.Router{})
}
