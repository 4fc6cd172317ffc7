package sidecar

import (
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	hcmFilter    = "envoy.filters.network.http_connection_manager"
	tcpFilter    = "envoy.filters.network.tcp_proxy"
	routerFilter = "envoy.filters.http.router"
)

// Timeouts of outbounds where no policy sets any.
const (
	outboundIdle       = time.Hour
	outboundStreamIdle = 30 * time.Minute
)

// outboundKey is everything that the listener of an outbound is made of.
type outboundKey struct {
	mesh, address, tags, protocol string
	port                          uint32
	// routes is the name of the route table of HTTP outbounds.
	routes string
	// split is where TCP connections go; nil for HTTP.
	split *draft.Split
	// life bounds connections of TCP that certificates have proved, 0 where none has.
	life        time.Duration
	transparent bool
	// source is whose outbound it is, if a policy looks at that.
	source     source
	renamed    renames
	selections *policy.Choices
}

func (k *outboundKey) name() string { return outboundName(k.address, k.port) }

// outbound builds the listener of an outbound.
func (p *Planner) outbound(k outboundKey) (*resource.Resource, error) {
	tags := tagsOf(k.tags)
	d := &draft.Outbound{
		Mesh: k.mesh, Service: tags.Service(), Protocol: k.protocol, Source: k.source.Service, Zone: k.source.Zone,
		Proto: &listenerv3.Listener{
			Name: k.name(), Address: socket(k.address, k.port),
			TrafficDirection: corev3.TrafficDirection_OUTBOUND, Metadata: tagMetadata(tags),
			EnableReusePort: alone(),
		},
	}
	if k.transparent {
		d.Proto.BindToPort = wrapperspb.Bool(false)
	}
	log, err := accesslog.Sidecar(p.log, accesslog.Place{Mesh: k.mesh, Service: d.Service, TCP: !mesh.IsHTTP(k.protocol)})
	if err != nil {
		return nil, err
	}
	if mesh.IsHTTP(k.protocol) {
		d.HTTP = httpManager(statName(d.Service), k.routes)
		d.HTTP.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(outboundIdle)}
		d.HTTP.StreamIdleTimeout = durationpb.New(outboundStreamIdle)
		d.HTTP.HttpProtocolOptions = http10()
		d.HTTP.AccessLog = log
	} else {
		d.TCP = tcpTo(statName(d.Service), k.split, k.renamed)
		d.TCP.IdleTimeout = durationpb.New(outboundIdle)
		d.TCP.AccessLog = log
		if k.life > 0 { // Envoy's clusters bound connections of HTTP alone
			d.TCP.MaxDownstreamConnectionDuration = durationpb.New(k.life)
		}
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outbound(d, s) }); err != nil {
		return nil, err
	}
	var filter *listenerv3.Filter
	if d.HTTP != nil {
		filter, err = packHTTP(d.HTTP, &d.Filters)
	} else {
		filter, err = packFilter(tcpFilter, d.TCP)
	}
	if err != nil {
		return nil, err
	}
	d.Proto.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}}
	return plan.Freeze(resource.Listener, d.Proto.GetName(), d.Proto)
}

// httpManager routes by a table of its own: a change of routes touches no
// listener, and with it no connection.
func httpManager(stat, routes string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: stat, CodecType: hcmv3.HttpConnectionManager_AUTO,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: plan.ADS(), RouteConfigName: routes}},
		// Between proxies a WebSocket is a CONNECT with a protocol (RFC 8441).
		UpgradeConfigs:       []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{AllowConnect: true},
		// The workload's own Server header stays.
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		LocalReplyConfig:           plan.LocalReplies(),
	}
}

// noHost stands for the host of a request that names none, as HTTP/1.0 permits. It
// is nobody's (RFC 2606 section 2).
const noHost = "host.invalid"

// http10 serves workloads that speak HTTP/1.0, which else would be told to upgrade.
// Only the own workload may: the switch also lets in lines without a version or with
// one that does not exist, and chunks where HTTP/1.0 has none, and nobody else's
// requests should be open to two readings.
func http10() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{AcceptHttp_10: true, DefaultHostForHttp_10: noHost}
}

// packHTTP ends the chain with the router.
func packHTTP(m *hcmv3.HttpConnectionManager, filters *draft.Slots) (*listenerv3.Filter, error) {
	return packRouted(m, filters, &routerv3.Router{})
}

// packRouted ends the chain with a certain router.
func packRouted(m *hcmv3.HttpConnectionManager, filters *draft.Slots, last *routerv3.Router) (*listenerv3.Filter, error) {
	router, err := plan.Pack(last)
	if err != nil {
		return nil, err
	}
	m.HttpFilters = append(filters.Filters(), &hcmv3.HttpFilter{
		Name: routerFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
	})
	return packFilter(hcmFilter, m)
}

func packFilter(name string, m proto.Message) (*listenerv3.Filter, error) {
	packed, err := plan.Pack(m)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", name, err)
	}
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed}}, nil
}

// tcpTo forwards connections to the targets of a split by their weights. A split
// that leads nowhere forwards to a cluster that does not exist: connections are
// closed.
func tcpTo(stat string, split *draft.Split, names renames) *tcpv3.TcpProxy {
	var shares any
	if split != nil {
		for _, to := range slices.Backward(split.Otherwise) {
			shares = shareKey{names.cluster(to.Tags), to.Weight, shares}
		}
	}
	t := tcpToShares(stat, shares)
	if split != nil && split.HashSource {
		t.HashPolicy = []*typev3.HashPolicy{{PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}}}}
	}
	return t
}

// tcpToShares does what tcpTo does, for a list of shareKeys.
func tcpToShares(stat string, shares any) *tcpv3.TcpProxy {
	t, weighted := &tcpv3.TcpProxy{StatPrefix: stat}, &tcpv3.TcpProxy_WeightedCluster{}
	for s, ok := shares.(shareKey); ok; s, ok = s.rest.(shareKey) {
		weighted.Clusters = append(weighted.Clusters, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{Name: s.cluster, Weight: s.weight})
	}
	switch len(weighted.Clusters) {
	case 0:
		t.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: nowhere}
	case 1:
		t.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: weighted.Clusters[0].Name}
	default:
		t.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: weighted}
	}
	return t
}

// nowhere is the name of no cluster.
const nowhere = apart + "blackhole"

// tagMetadata tells what a listener is for.
func tagMetadata(tags mesh.Tags) *corev3.Metadata {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(tags))}
	for k, v := range tags {
		s.Fields[k] = structpb.NewStringValue(v)
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{mesh.MetadataTags: s}}
}
