package sidecar

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
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
	"github.com/meshgate/meshgate/xds/scraping"
)

// inspectTimeout bounds how long a client may take to show whether it speaks TLS.
const inspectTimeout = time.Second

// handshakeTimeout bounds how long a client may take to prove who it is: until then a
// connection of TCP is never idle, and one of HTTP has the hours of all inbounds.
const handshakeTimeout = 10 * time.Second

// inboundKey is everything that the filter chains of an inbound are made of.
type inboundKey struct {
	mesh, tags string
	// cluster leads to the workload.
	cluster  string
	security security
	// life bounds connections that a certificate has proved; those of before the
	// last withdrawal of a root end.
	life      time.Duration
	withdrawn uint64
	// routes is the name of the route table of HTTP inbounds.
	routes string
	// bare proxies lack the filter.
	bare bool
	// scraped says that the workload is the agent's page of metrics.
	scraped    bool
	selections *policy.Choices
}

// chains are the filter chains of an inbound, shared by its replicas.
type chains struct {
	listener *listenerv3.Listener
	// own is for connections from the address of the proxy itself, nil if these are treated as
	// all others.
	own *listenerv3.FilterChain
}

// chains builds the chains of an inbound:
//
//   - without mutual TLS one
//   - with STRICT one that demands a certificate
//   - with PERMISSIVE one for proxies of the mesh, one for plain connections and
//     one for the workload's own TLS
func (p *Planner) chains(k inboundKey) (*chains, error) {
	tags := tagsOf(k.tags)
	d := &draft.Inbound{Mesh: k.mesh, Service: tags.Service(), Protocol: tags.Protocol(), Zone: tags[mesh.TagZone], MutualTLS: k.security != plain, Bare: k.bare}
	stat := clusterStat(k.cluster)
	place := accesslog.Place{Mesh: k.mesh, Service: d.Service, Inbound: true, TCP: !mesh.IsHTTP(d.Protocol)}
	log, err := accesslog.Sidecar(p.log, place)
	if err != nil {
		return nil, err
	}
	if mesh.IsHTTP(d.Protocol) {
		d.HTTP = httpManager(stat, k.routes)
		d.HTTP.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
		d.HTTP.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Uri: true}
		d.HTTP.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(inboundIdle)}
		d.HTTP.StreamIdleTimeout = durationpb.New(inboundStreamIdle)
		d.HTTP.AccessLog = log
		if err := shield(d.HTTP); err != nil {
			return nil, err
		}
	} else {
		d.TCP = tcpLocal(stat, k.cluster)
		d.TCP.AccessLog = log
	}
	if err := p.editInbound(k.selections, func(e *edits, s *chosen) error { return e.inbound(d, s) }); err != nil {
		return nil, err
	}
	l := &listenerv3.Listener{
		TrafficDirection: corev3.TrafficDirection_INBOUND, Metadata: tagMetadata(tags),
		EnableReusePort: alone(),
	}
	open, err := chain(d, false)
	if err != nil {
		return nil, err
	}
	if k.security == plain {
		l.FilterChains = []*listenerv3.FilterChain{open}
		return &chains{listener: l}, nil
	}
	bound(d, k.life)
	if err := p.awaitProof(d, place); err != nil {
		return nil, err
	}
	proved, err := chain(d, true)
	if err != nil {
		return nil, err
	}
	if k.withdrawn > 0 {
		// Envoy drains the connections of a chain that becomes another.
		proved.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{mesh.MetadataTrust: {
			Fields: map[string]*structpb.Value{"withdrawn": structpb.NewNumberValue(float64(k.withdrawn))},
		}}}
	}
	if proved.TransportSocket, err = downstreamTLS(k.mesh, d.Peers); err != nil {
		return nil, err
	}
	proved.TransportSocketConnectTimeout = durationpb.New(handshakeTimeout)
	l.FilterChains = []*listenerv3.FilterChain{proved}
	if k.scraped {
		return &chains{listener: l, own: open}, nil
	}
	if k.security == strict {
		return &chains{listener: l}, nil
	}
	return &chains{listener: l}, permit(l, proved, open, k.cluster, d.NoOpaque)
}

// bound ends connections that a certificate has proved, which is never asked for
// again: they take no new streams after the life of certificates. Envoy lets a
// stream that is open then go on, so streams have the same bound.
func bound(d *draft.Inbound, life time.Duration) {
	if d.HTTP != nil {
		d.HTTP.CommonHttpProtocolOptions.MaxConnectionDuration = durationpb.New(life)
		d.HTTP.CommonHttpProtocolOptions.MaxStreamDuration = durationpb.New(life)
	} else {
		d.TCP.MaxDownstreamConnectionDuration = durationpb.New(life)
	}
}

// awaitProof leaves the workload alone until the client has proved that it is one of the
// peers. Envoy would connect to it as soon as anybody has connected, and has it heard by
// whoever passes the handshake, before it asks what else is in the chain.
func (p *Planner) awaitProof(d *draft.Inbound, at accesslog.Place) error {
	if d.TCP == nil {
		return nil
	}
	d.TCP.UpstreamConnectMode = tcpv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
	// Nothing that the client says is kept for a workload that is not connected yet.
	d.TCP.MaxEarlyDataBytes = wrapperspb.UInt32(0)
	log, err := accesslog.Handshakes(p.log, at)
	d.TCP.AccessLog = append(d.TCP.AccessLog, log...)
	return err
}

// permit adds the chains for peers that are not in the mesh yet.
func permit(l *listenerv3.Listener, proved, open *listenerv3.FilterChain, cluster string, noOpaque bool) error {
	inspector, err := plan.Pack(&inspectorv3.TlsInspector{})
	if err != nil {
		return err
	}
	l.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
	}}
	// A client that waits for the server to speak first is only delayed.
	l.ListenerFiltersTimeout, l.ContinueOnListenerFiltersTimeout = durationpb.New(inspectTimeout), true
	proved.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "tls", ApplicationProtocols: []string{mesh.ALPN}}
	open.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "raw_buffer"}
	l.FilterChains = append(l.FilterChains, open)
	if noOpaque {
		return nil
	}
	own, err := packFilter(tcpFilter, tcpLocal(clusterStat(cluster), cluster))
	if err != nil {
		return err
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{
		Name: "tls", FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "tls"}, Filters: []*listenerv3.Filter{own},
	})
	return nil
}

// chain packs one chain; proved says that its peers have proved who they are.
func chain(d *draft.Inbound, proved bool) (*listenerv3.FilterChain, error) {
	c := &listenerv3.FilterChain{Name: "plain"}
	filters := d.Filters
	if proved {
		c.Name = "mesh"
		c.Filters = append(c.Filters, d.AuthenticatedNetwork...)
		for slot, fs := range d.AuthenticatedFilters {
			filters[slot] = append(fs[:len(fs):len(fs)], filters[slot]...)
		}
	}
	var last *listenerv3.Filter
	var err error
	if d.HTTP != nil {
		last, err = packHTTP(proto.CloneOf(d.HTTP), &filters)
	} else {
		last, err = packFilter(tcpFilter, d.TCP)
	}
	if err != nil {
		return nil, err
	}
	c.Filters = append(c.Filters, last)
	return c, nil
}

func tcpLocal(stat, cluster string) *tcpv3.TcpProxy {
	return &tcpv3.TcpProxy{
		StatPrefix: stat, IdleTimeout: durationpb.New(inboundIdle),
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster},
	}
}

// listenerKey puts the chains of an inbound behind an address.
type listenerKey struct {
	chains      *chains
	address     string
	port        uint32
	transparent bool
	// scraped says that it is the listener of the metrics.
	scraped bool
}

func (k *listenerKey) name() string {
	if k.scraped {
		return scraping.Listener
	}
	return inboundName(k.address, k.port)
}

func inboundListener(k listenerKey) (*resource.Resource, error) {
	shared := k.chains.listener
	l := &listenerv3.Listener{
		Name: k.name(), Address: socket(k.address, k.port),
		TrafficDirection: shared.TrafficDirection, Metadata: shared.Metadata, EnableReusePort: shared.EnableReusePort,
		ListenerFilters: shared.ListenerFilters, ListenerFiltersTimeout: shared.ListenerFiltersTimeout,
		ContinueOnListenerFiltersTimeout: shared.ContinueOnListenerFiltersTimeout, FilterChains: shared.FilterChains,
		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
	}
	if k.chains.own != nil {
		own, err := fromItself(k.address, k.chains.own)
		if err != nil {
			return nil, err
		}
		l.FilterChains = append([]*listenerv3.FilterChain{own}, l.FilterChains...)
	}
	if k.transparent {
		l.BindToPort = wrapperspb.Bool(false)
	}
	return plan.Freeze(resource.Listener, l.Name, l)
}
