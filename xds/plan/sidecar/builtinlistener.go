package sidecar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	gzipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/compression/gzip/compressor/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// limitFilter is the name of Envoy's filter that bounds connections.
const limitFilter = "envoy.filters.network.connection_limit"

// builtinConnections is how many connections a chain of a gateway takes at a time if its listener
// does not say (Envoy's recommendations for edge proxies). Each host name of HTTPS and TLS has a
// chain, so the bound is one for each. A share of one bound would change with the number of hosts, and
// Envoy drains the connections of chains that change.
const builtinConnections = 10_000

// builtinChain is everything that one filter chain of a gateway is made of, and the chain of the
// next one. A whole list of chains is comparable.
type builtinChain struct {
	protocol, host string
	// table is the route table of HTTP.
	table string
	// secrets are the names of the certificates that are presented, joined by commas; none where
	// TLS is not ended.
	secrets string
	// closed says that it ends every connection, because what it is for could not be made. Without
	// it, the chain of a wider name would take them.
	closed bool
	// shares are where connections of TCP and TLS go, as shareKeys, with what edits them.
	shares     any
	selections *policy.Choices
	// request is how long a client may take to send a request, 0 for any time.
	request time.Duration
	// limit bounds the connections.
	limit uint32
	// life bounds connections that certificates have proved, 0 where none has.
	life time.Duration
	// across says that it is for proxies of all meshes. Connections of before the last withdrawal of
	// a root end.
	across    bool
	withdrawn string
	rest      any
}

// shareKey is one cluster with its weight, and that of the next one.
type shareKey struct {
	cluster string
	weight  uint32
	rest    any
}

// builtinListenerKey is everything that the listener on one port of a gateway is made of.
type builtinListenerKey struct {
	mesh, address, service string
	port                   uint32
	source                 source
	bare                   bool
	chains                 any
	selections             *policy.Choices
}

// stand makes the listeners of a gateway, after its outbounds were built. What cannot be made
// keeps its last version.
func (p *Planner) stand(r *reach) {
	if r.shape.Gateway == nil {
		return
	}
	old, presented := r.front, r.presented
	guards, err := p.guards(r)
	if err == nil {
		err = guard(func() { p.makeListeners(r, guards) })
	}
	if err == nil {
		return
	}
	failure := plan.Failure{Cell: gatewayPrefix + r.shape.Gateway.Service(), Err: err, Kept: true}
	r.front, r.presented = old, presented
	if guards == nil || slices.ContainsFunc(guards, func(c *policy.Choices) bool { return c != nil }) {
		// The last version may lack what was to keep somebody out.
		failure.Kept, failure.Err = false, fmt.Errorf("nothing listens: %w", err)
		r.front = part{learned: unknown}
	}
	r.front.failures = []plan.Failure{failure}
}

func (p *Planner) makeListeners(r *reach, guards []*policy.Choices) {
	old, presented := r.front, r.presented
	r.front, r.presented = part{}, map[string]string{}
	for i, o := range r.outbounds {
		o.guards = guards[i]
		p.guarded(r, o)
	}
	if p.awaitFront(r, &old) {
		r.presented = presented
		return
	}
	chosen := p.spread(r.key.proxy, aboutOutbounds)
	p.forService(r.sources, mesh.PassThrough, chosen, &r.front)
	r.front.learned = p.learnAll(r.front.learned, chosen)
	p.contributed(chosen, &r.front)
	selections := p.only(chosen, func(pol *policy.Policy) bool { return pol.Outbound != nil })
	for i := 0; i < len(r.outbounds); {
		n := i + 1
		for n < len(r.outbounds) && r.outbounds[n].shape.Port == r.outbounds[i].shape.Port {
			n++
		}
		p.makePort(r, r.outbounds[i:n], &old, selections)
		i = n
	}
}

// makePort makes the listener on one port, and its route tables.
func (p *Planner) makePort(r *reach, on []*outbound, old *part, selections *policy.Choices) {
	first, across := on[0], false
	k := builtinListenerKey{
		mesh: p.facts.mesh, address: first.shape.Address, port: first.shape.Port, service: r.shape.Gateway.Service(), source: r.shape.Source, bare: r.shape.Bare,
		selections: selections,
	}
	if first.listener.Spec.Protocol == mesh.ListenerHTTP {
		c := builtinChain{protocol: mesh.ListenerHTTP, limit: limitOf(on), request: requestTime(on)}
		if c.across = slices.ContainsFunc(on, func(o *outbound) bool { return o.listener.Spec.CrossMesh }); c.across {
			if !p.listensAcross(r, on) {
				return
			}
			c.life, c.withdrawn, across = p.facts.life, p.crossed.withdrawn, true
		}
		var ok bool
		if c.table, ok = p.makeTable(r, on, old, gatewayTable(r.gateway.Chosen.Name, first.listener.Spec, mesh.AnyHost), nil); ok {
			k.chains = c
		}
	} else {
		open := false
		for _, o := range slices.Backward(on) {
			c, ok := p.chainOf(r, o, on, old)
			if !ok {
				c = builtinChain{protocol: c.protocol, host: c.host, closed: true}
			}
			open = open || ok
			c.rest = k.chains
			k.chains = c
		}
		if !open {
			k.chains = nil
		}
	}
	if k.chains == nil {
		return // nothing listens where nothing could be done
	}
	l, err := of(p.cells.builtins, p.round, k, p.builtinListener)
	if err != nil { // what stays is the last version
		across = slices.Contains(old.across, first.listenerName())
	}
	if r.front.keep(&r.front.listeners, old.listeners, first.listenerName(), l, err) && across {
		r.front.across = append(r.front.across, first.listenerName())
	}
}

// limitOf returns the limit of the connections to listeners with one chain.
func limitOf(on []*outbound) (limit uint32) {
	for _, o := range on {
		if res := o.listener.Spec.Resources; res != nil {
			limit = max(limit, res.ConnectionLimit)
		}
	}
	return cmp.Or(limit, builtinConnections)
}

// requestTime returns how long a client of some listeners may take to send a request, 0 for any
// time. Envoy knows that only of a whole chain, before it has chosen a route. So it is what the most
// patient of the routes needs: who gives a service more time for its answer gives it to the request,
// too, and a Timeout without a limit is how uploads and streams are let through that take longer.
func requestTime(on []*outbound) time.Duration {
	most := builtinRequest
	for _, o := range on {
		for _, h := range o.hosts {
			for s, ok := h.routes.(step); ok; s, ok = s.rest.(step) {
				a := s.route.GetRoute()
				if a == nil {
					continue
				}
				answer := a.GetTimeout().AsDuration()
				if answer == 0 {
					return 0
				}
				most = max(most, answer)
			}
		}
	}
	return most
}

// makeTable makes the route table of some listeners. elsewhere are listeners with other chains.
func (p *Planner) makeTable(r *reach, with []*outbound, old *part, name string, elsewhere []*outbound) (string, bool) {
	k := builtinTableKey{mesh: p.facts.mesh, name: name, secure: with[0].listener.Spec.Protocol == mesh.ListenerHTTPS, bare: r.shape.Bare}
	guarded := false
	for _, h := range slices.Backward(hostsOf(with)) {
		guarded = guarded || h.guards != nil || h.closed
		h.rest = k.hosts
		k.hosts = h
	}
	var names []string
	for _, o := range elsewhere {
		if o != with[0] && selection.Covers(with[0].listener.Host, o.listener.Host) {
			names = append(names, o.listener.Host)
		}
	}
	if k.secure && with[0].listener.Host != mesh.AnyHost {
		// A client may have taken the connection for another host, to whose address it leads, too.
		names = append(names, mesh.AnyHost)
	}
	k.elsewhere = strings.Join(names, ",")
	table, err := of(p.cells.builtinTables, p.round, k, p.builtinTable)
	if err != nil && guarded { // an earlier version may lack what was to keep somebody out
		r.front.failures = append(r.front.failures, plan.Failure{Cell: name, Err: fmt.Errorf("every request is refused: build %s: %w", name, err)})
		table, err = closedTable(k)
	}
	return name, r.front.keep(&r.front.routes, old.routes, name, table, err)
}

// chainOf makes the chain of a listener that is told by its host name, or by nothing.
func (p *Planner) chainOf(r *reach, o *outbound, on []*outbound, old *part) (c builtinChain, ok bool) {
	l := o.listener.Spec
	c = builtinChain{protocol: l.Protocol, host: o.listener.Host, limit: limitOf([]*outbound{o})}
	if l.TLS != nil && l.TLS.Mode == mesh.TLSTerminate {
		names := r.present(o)
		if len(names) == 0 {
			return c, false
		}
		c.secrets = strings.Join(names, ",")
	}
	if l.Protocol == mesh.ListenerHTTPS {
		c.request = requestTime([]*outbound{o})
		c.table, ok = p.makeTable(r, []*outbound{o}, old, gatewayTable(r.gateway.Chosen.Name, l, o.listener.Host), on)
		return c, ok
	}
	c.life = o.part.life()
	for _, s := range slices.Backward(o.listener.Shares) {
		if b := o.backends[s.Backend.Destination.String()]; s.Weight > 0 && b != nil {
			c.shares, c.selections = shareKey{b.cluster, s.Weight, c.shares}, b.choices
		}
	}
	return c, true
}

// present notes which certificates a listener presents and returns the names of their secrets. One
// that cannot be used is left out, even if proxies have it: a proxy that comes later would wait for
// it, and all hosts of the port with it.
func (r *reach) present(o *outbound) (names []string) {
	for _, c := range o.listener.Spec.TLS.Certificates {
		cert, name := r.gateway.Chosen.Certificates[c.Secret], mesh.SecretServer(c.Secret)
		if cert.Wrong != "" {
			r.front.failures = append(r.front.failures, plan.Failure{
				Cell: o.cell(), Err: fmt.Errorf("secret %q cannot be used, and connections for %s that need it are closed: %s", c.Secret, o.listener.Host, cert.Wrong),
			})
			continue
		}
		r.presented[name] = cert.Generation
		names = append(names, name)
	}
	return names
}

// builtinListener builds the listener on one port of a gateway.
func (p *Planner) builtinListener(k builtinListenerKey) (*resource.Resource, error) {
	out := &listenerv3.Listener{
		Name: gatewayListenerName(k.address, k.port), Address: socket(k.address, k.port), TrafficDirection: corev3.TrafficDirection_INBOUND,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(plan.ConnectionBuffer), MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
		EnableReusePort: alone(),
	}
	for c, ok := k.chains.(builtinChain); ok; c, ok = c.rest.(builtinChain) {
		chain, err := p.builtinFilterChain(&k, &c)
		if err != nil {
			return nil, err
		}
		out.FilterChains = append(out.FilterChains, chain)
		if secured := c.protocol == mesh.ListenerHTTPS || c.protocol == mesh.ListenerTLS; secured && out.ListenerFilters == nil {
			inspector, err := plan.Inspector()
			if err != nil {
				return nil, err
			}
			out.ListenerFilters = []*listenerv3.ListenerFilter{inspector}
			out.ListenerFiltersTimeout = durationpb.New(plan.HandshakeTimeout)
		}
	}
	return plan.Freeze(resource.Listener, out.GetName(), out)
}

// builtinFilterChain builds one chain. Policies on the whole gateway edit each as they edit the
// listener of an outbound.
func (p *Planner) builtinFilterChain(k *builtinListenerKey, c *builtinChain) (*listenerv3.FilterChain, error) {
	chain := &listenerv3.FilterChain{Name: strings.ToLower(c.protocol) + ":" + c.host}
	d := &draft.Outbound{Mesh: k.mesh, Service: k.service, Protocol: mesh.ProtocolHTTP, Source: k.source.Service, Zone: k.source.Zone, Proto: &listenerv3.Listener{}}
	secured := c.protocol == mesh.ListenerHTTPS || c.protocol == mesh.ListenerTLS
	if secured {
		chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "tls"}
		if c.host != mesh.AnyHost {
			chain.FilterChainMatch.ServerNames = []string{c.host}
		}
		chain.TransportSocketConnectTimeout = durationpb.New(plan.HandshakeTimeout)
	}
	if c.closed {
		end, err := packFilter(tcpFilter, tcpToShares(statName(fmt.Sprintf("%s_%s_%d", k.service, c.protocol, k.port)), nil))
		chain.Filters = []*listenerv3.Filter{end}
		return chain, err
	}
	log, err := accesslog.Sidecar(p.log, accesslog.Place{Mesh: k.mesh, Service: k.service, TCP: c.table == ""})
	if err != nil {
		return nil, err
	}
	stat := statName(fmt.Sprintf("%s_%s_%d", k.service, c.protocol, k.port))
	var alpn []string
	if c.table != "" {
		alpn = []string{"h2", "http/1.1"}
		if d.HTTP, err = p.strangers(stat, c, &d.Filters, k.bare); err != nil {
			return nil, err
		}
		d.HTTP.AccessLog = log
	} else {
		d.Protocol = mesh.ProtocolTCP
		d.TCP = tcpToShares(stat, c.shares)
		d.TCP.IdleTimeout = durationpb.New(outboundIdle)
		d.TCP.AccessLog = log
		if c.life > 0 {
			d.TCP.MaxDownstreamConnectionDuration = durationpb.New(c.life)
		}
	}
	for _, selections := range []*policy.Choices{c.selections, k.selections} {
		if err := p.edit(selections, func(e *edits, s *chosen) error { return e.outbound(d, s) }); err != nil {
			return nil, err
		}
	}
	if c.across {
		if err := p.across(chain, d, k, c); err != nil {
			return nil, err
		}
	}
	if c.secrets != "" {
		packed, err := plan.Pack(plan.ServerTLS(words(c.secrets), alpn))
		if err != nil {
			return nil, err
		}
		chain.TransportSocket = &corev3.TransportSocket{Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}
	}
	limit, err := packFilter(limitFilter, &limitv3.ConnectionLimit{StatPrefix: stat, MaxConnections: wrapperspb.UInt64(uint64(c.limit))})
	if err != nil {
		return nil, err
	}
	var last *listenerv3.Filter
	if d.HTTP != nil {
		last, err = packRouted(d.HTTP, &d.Filters, &routerv3.Router{SuppressEnvoyHeaders: true})
	} else {
		last, err = packFilter(tcpFilter, d.TCP)
	}
	chain.Filters = []*listenerv3.Filter{limit, last}
	return chain, err
}

// across lets proxies of all meshes in, and nobody else.
func (p *Planner) across(chain *listenerv3.FilterChain, d *draft.Outbound, k *builtinListenerKey, c *builtinChain) (err error) {
	life := durationpb.New(c.life)
	d.HTTP.CommonHttpProtocolOptions.MaxConnectionDuration, d.HTTP.CommonHttpProtocolOptions.MaxStreamDuration = life, life
	chain.TransportSocketConnectTimeout = durationpb.New(handshakeTimeout)
	if c.withdrawn != "" {
		chain.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{mesh.MetadataTrust: {
			Fields: map[string]*structpb.Value{"withdrawn": structpb.NewStringValue(c.withdrawn)},
		}}}
	}
	chain.TransportSocket, err = acrossTLS(k.mesh)
	return err
}

// strangers returns a manager for clients that nobody knows (Envoy's recommendations for edge
// proxies). Slow headers, slow requests and idle streams are ended, and routes bound the rest. Envoy
// no longer asks how long a request takes once its answer has begun, so WebSockets and streams in
// both directions last.
func (p *Planner) strangers(stat string, c *builtinChain, filters *draft.Slots, bare bool) (*hcmv3.HttpConnectionManager, error) {
	prepared, err := p.prepared(bare)
	if err != nil {
		return nil, err
	}
	*filters = prepared
	if err := compress(filters); err != nil {
		return nil, err
	}
	scheme := "http"
	if c.protocol == mesh.ListenerHTTPS {
		scheme = "https"
	}
	m := httpManager(stat, c.table)
	m.UseRemoteAddress, m.InternalAddressConfig = wrapperspb.Bool(true), plan.NobodyInternal()
	m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
	m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT
	m.SchemeHeaderTransformation = &corev3.SchemeHeaderTransformation{
		Transformation: &corev3.SchemeHeaderTransformation_SchemeToOverwrite{SchemeToOverwrite: scheme},
	}
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{
		IdleTimeout: durationpb.New(plan.ConnectionIdle), HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_REJECT_REQUEST,
	}
	m.Http2ProtocolOptions = plan.StrangersHTTP2()
	m.Http2ProtocolOptions.AllowConnect = true // for WebSockets alone, see httpManager
	m.StreamIdleTimeout, m.RequestHeadersTimeout = durationpb.New(plan.StreamIdle), durationpb.New(plan.HeadersTimeout)
	if c.request > 0 {
		m.RequestTimeout = durationpb.New(c.request)
	}
	// Inbounds let through what gateways say about callers. Here it would be the caller's own word.
	return m, early(m, saidByStrangers())
}

// compressor is the name of Envoy's filter that compresses.
const compressor = "envoy.filters.http.compressor"

// compress compresses answers for clients that take it (RFC 9110 section 12.5.3). An answer with an
// entity tag stays as it is, because the tag is that of its bytes.
func compress(filters *draft.Slots) error {
	library, err := plan.Pack(&gzipv3.Gzip{})
	if err != nil {
		return err
	}
	config, err := plan.Pack(&compressorv3.Compressor{
		ResponseDirectionConfig: &compressorv3.Compressor_ResponseDirectionConfig{DisableOnEtagHeader: true},
		CompressorLibrary:       &corev3.TypedExtensionConfig{Name: "gzip", TypedConfig: library},
	})
	if err != nil {
		return err
	}
	return filters.Put(draft.SlotCompression, &hcmv3.HttpFilter{Name: compressor, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}})
}

// words splits names that were joined by commas.
func words(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}
