package sidecar

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	valuev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/directing"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// Direct access is for workloads that call one instance of a service by its own address, such as
// the members of a database. Each instance has a listener at its address, which takes redirected
// connections alone, and leads to the address that the workload has called. A service is an
// outbound of its own, without an address: it is built again when its instances change.
//
// A machine may have addresses that nobody tells the control plane. If somebody says that an
// instance is at one of them, the listener for it would also get what arrives at the machine: it
// would let strangers in as this proxy, and call itself, over and over, until Envoy has no file
// descriptors left, of which it dies. So the name of the cluster contains the port to which a
// connection was redirected. There is no cluster for what arrives.

// directPrefix begins the names of the listeners and clusters of direct access.
const directPrefix = "direct_access"

// stateFilter is the name of Envoy's filter that has connections choose their clusters.
const stateFilter = "envoy.filters.network.set_filter_state"

// MaxDirect is how many instances a proxy has listeners for.
const MaxDirect = 2000

// directShape says to which services a reach has direct access, and which ports are those of the
// redirections: a connection to one of these would come back.
type directShape struct {
	Services          []string
	Outbound, Inbound uint32
}

// directOf returns the direct access of a class, nil if there is none.
func directOf(s *shape) *directShape {
	if !s.Transparent || len(s.Direct) == 0 {
		return nil
	}
	return &directShape{Services: s.Direct, Outbound: s.RedirectOutbound, Inbound: s.RedirectInbound}
}

// all reports whether every service is accessed.
func (d *directShape) all() bool { return d != nil && slices.Contains(d.Services, mesh.AnyValue) }

// direct is what the direct accesses of a reach amount to.
type direct struct {
	// at has the listeners by their sockets, and by has their names by address.
	at sockets
	by map[netip.Addr][]string
	// omitted are listeners that no proxy can have, and failures say why.
	omitted  map[*outbound]sockets
	failures []plan.Failure
}

// directServices lists the services to which a reach has direct access.
func (p *Planner) directServices(r *reach) []string {
	if r.shape.Direct == nil {
		return nil
	}
	return selection.DirectServices(p.state, r.shape.Direct.Services)
}

// listDirect adds the direct accesses to the outbounds of a reach. What listens elsewhere may have
// changed, so all are built again.
func (p *Planner) listDirect(r *reach, before map[string]*outbound) {
	for _, service := range p.directServices(r) {
		tags := mesh.Tags{mesh.TagService: service}
		o := &outbound{reach: r, tags: tags.String(), direct: true}
		o.shape.Tags = tags
		if old := before[o.id()]; old != nil {
			delete(before, o.id())
			o = old
		}
		r.stale[o] = struct{}{}
		r.outbounds = append(r.outbounds, o)
	}
}

// makeDirect makes the listeners of the instances of a service, and their clusters.
func (p *Planner) makeDirect(o *outbound) {
	service := o.shape.Tags.Service()
	o.part, o.idle, o.unserved, o.instances = part{}, nil, nil, nil
	p.link(o, []string{service})
	kind, d := p.destination(service)
	s, served := d.(*view.MeshService)
	switch {
	case d == nil:
		o.unserved = []string{service}
		return
	case p.isProxyless(kind) || !served:
		if !o.reach.shape.Direct.all() {
			o.idle = []plan.Failure{{Cell: o.cell(), Err: fmt.Errorf("%q is outside the mesh: it has no instances with proxies", service), Awaited: true}}
		}
		return
	}
	chosen := p.blank(atPiece)
	p.forService(o.reach.sources, service, chosen, &o.part)
	o.part.learned = p.learnAll(nil, chosen)
	p.contributed(chosen, &o.part)
	k := accessKey{
		mesh: p.facts.mesh, service: service, source: o.reach.shape.Source,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.Outbound != nil }),
	}
	mutual := p.instances(o, s)
	ways := map[bool]string{}
	for _, at := range o.instances {
		way, is := ways[mutual[at]]
		if !is {
			dk := directKey{mesh: p.facts.mesh, port: o.reach.shape.Direct.Outbound}
			if mutual[at] {
				dk.service = service
			}
			way = directing.Group(dk.service)
			ways[mutual[at]] = way
			c, err := of(p.cells.directs, p.round, dk, directCluster)
			o.part.keep(&o.part.clusters, nil, dk.name(), c, err) // an earlier one may be less strict
		}
		k.at, k.cluster, k.life = at, way, 0
		if mutual[at] {
			k.life = p.facts.life
		}
		l, err := of(p.cells.accesses, p.round, k, p.access)
		o.part.keep(&o.part.listeners, nil, k.name(), l, err)
	}
}

// instances notes where the instances of a service have listeners, in order. It returns which of
// them are called by mutual TLS: all that can, and of several at one address all if one can.
func (p *Planner) instances(o *outbound, s *view.MeshService) (mutual map[netip.AddrPort]bool) {
	mutual = map[netip.AddrPort]bool{}
	named := false
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Ingress != "" {
			continue // an ingress is no instance, and many services are behind it
		}
		at, err := addressOf(e.Address, e.Port)
		if err != nil {
			named = true
			continue
		}
		if o.reach.taken(at) || !o.reach.shape.Direct.leads(at) {
			continue // what an outbound has is the outbound's
		}
		if _, is := mutual[at]; !is {
			o.instances = append(o.instances, at)
		}
		mutual[at] = mutual[at] || p.facts.security == strict || p.facts.security == permissive && p.secured[e.Dataplane]
	}
	slices.SortFunc(o.instances, netip.AddrPort.Compare)
	if named {
		o.idle = append(o.idle, plan.Failure{
			Cell: o.cell(), Err: fmt.Errorf("some instances of %q are known by names: there is no listener for their addresses", o.shape.Tags.Service()), Awaited: true,
		})
	}
	return mutual
}

// leads reports whether connections to an address may be passed on. Those to the ports of the
// redirection, and to the addresses of names, would come back to the proxy.
func (d *directShape) leads(at netip.AddrPort) bool {
	a, port := at.Addr(), uint32(at.Port())
	return port != d.Outbound && port != d.Inbound && !a.IsUnspecified() && !a.IsMulticast() && !mesh.Virtual.Contains(a)
}

// settleDirect finds out which instances the proxies of a reach have listeners for: the first
// MaxDirect, and of several services at one address the first.
func (r *reach) settleDirect() {
	if r.shape.Direct == nil {
		return
	}
	d := direct{at: sockets{}, by: map[netip.Addr][]string{}, omitted: map[*outbound]sockets{}}
	left := 0
	for _, o := range r.outbounds {
		for _, at := range o.instances {
			switch {
			case d.at[at]:
				d.failures = append(d.failures, plan.Failure{
					Cell: o.cell(), Err: fmt.Errorf("%s is called as another service, which has an instance there, too", at),
				})
			case len(d.at) == MaxDirect:
				left++
			default:
				d.at[at] = true
				d.by[at.Addr()] = append(d.by[at.Addr()], accessName(at))
				continue
			}
			if d.omitted[o] == nil {
				d.omitted[o] = sockets{}
			}
			d.omitted[o][at] = true
		}
	}
	if left > 0 {
		d.failures = append(d.failures, plan.Failure{
			Cell: directPrefix, Err: fmt.Errorf("%d instances are left out: a proxy has direct access to %d", left, MaxDirect),
		})
	}
	r.direct = d
}

// usable leaves out the listeners of an outbound that no proxy can have.
func (d *direct) usable(o *outbound) part {
	omitted := d.omitted[o]
	if omitted == nil {
		return o.part
	}
	out := o.part
	out.listeners = slices.DeleteFunc(slices.Clone(out.listeners), func(l *resource.Resource) bool {
		return slices.ContainsFunc(o.instances, func(at netip.AddrPort) bool { return omitted[at] && accessName(at) == l.Name })
	})
	return out
}

// hideOwn removes the listeners for instances at the proxy's own addresses. A connection to one
// comes from others, who would get through as this proxy, or from the proxy itself.
func (x *proxy) hideOwn() {
	for _, a := range x.owned {
		x.hidden = append(x.hidden, x.class.reach.direct.by[a]...)
	}
}

// owned lists the addresses that a dataplane says are its own.
func owned(n *mesh.Networking) (out []netip.Addr) {
	all := []string{n.Address, n.AdvertisedAddress}
	for i := range n.Inbound {
		all = append(all, n.Inbound[i].Address)
	}
	for _, s := range all {
		if a, err := netip.ParseAddr(s); err == nil && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// idleDirect says that a proxy has no direct access, because nothing is redirected to it.
func (s *shape) idleDirect() []plan.Failure {
	if s.Transparent || len(s.Direct) == 0 {
		return nil
	}
	const why = "directAccessServices has no effect: nothing is redirected to the proxy without a redirectPortOutbound"
	return []plan.Failure{{Cell: directPrefix, Err: errors.New(why), Awaited: true}}
}

// directKey is everything that a cluster of direct access is made from. service is empty for
// instances that are called in clear text.
// port is where connections are redirected to.
type directKey struct {
	mesh, service string
	port          uint32
}

func (k *directKey) name() string { return directing.Cluster(directing.Group(k.service), k.port) }

// directCluster leads to the address that was called. Under mutual TLS the other end must be the
// service: one of another service has a certificate of the mesh, too.
func directCluster(k directKey) (*resource.Resource, error) {
	c := &clusterv3.Cluster{
		Name: k.name(), AltStatName: clusterStat(directing.Group(k.service)), ConnectTimeout: durationpb.New(connectTimeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
		CircuitBreakers:      plan.Unlimited(),
	}
	if k.service != "" {
		socket, err := upstreamTLS(k.mesh, mesh.Tags{mesh.TagService: k.service}, k.service)
		if err != nil {
			return nil, err
		}
		c.TransportSocket = socket
	}
	return plan.Freeze(resource.Cluster, c.GetName(), c)
}

// accessKey is everything that the listener of an instance is made from.
type accessKey struct {
	mesh, service string
	// cluster is the name of the cluster without the port of the redirection.
	cluster string
	at      netip.AddrPort
	// life bounds connections that certificates have proved, 0 where none has.
	life       time.Duration
	source     source
	selections *policy.Choices
}

func (k *accessKey) name() string { return accessName(k.at) }

func accessName(at netip.AddrPort) string {
	return directPrefix + "_" + hostPort(at.Addr().String(), uint32(at.Port()))
}

// access builds the listener of an instance.
func (p *Planner) access(k accessKey) (*resource.Resource, error) {
	tags := mesh.Tags{mesh.TagService: k.service}
	d := &draft.Outbound{
		Mesh: k.mesh, Service: k.service, Protocol: mesh.ProtocolTCP, Source: k.source.Service, Zone: k.source.Zone,
		TCP: &tcpv3.TcpProxy{
			StatPrefix: statName(directPrefix + ":" + k.service), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: nowhere},
			IdleTimeout: durationpb.New(outboundIdle),
		},
		Proto: &listenerv3.Listener{
			Name: k.name(), Address: socket(k.at.Addr().String(), uint32(k.at.Port())), BindToPort: wrapperspb.Bool(false),
			TrafficDirection: corev3.TrafficDirection_OUTBOUND, Metadata: tagMetadata(tags), EnableReusePort: alone(),
		},
	}
	if k.life > 0 {
		d.TCP.MaxDownstreamConnectionDuration = durationpb.New(k.life)
	}
	var err error
	if d.TCP.AccessLog, err = accesslog.Sidecar(p.log, accesslog.Place{Mesh: k.mesh, Service: k.service, TCP: true}); err != nil {
		return nil, err
	}
	if err = p.edit(k.selections, func(e *edits, s *chosen) error { return e.outbound(d, s) }); err != nil {
		return nil, err
	}
	toCluster, err := packFilter(stateFilter, &statev3.Config{OnNewConnection: []*valuev3.FilterStateValue{directing.Choice(k.cluster)}})
	if err != nil {
		return nil, err
	}
	forward, err := packFilter(tcpFilter, d.TCP)
	if err != nil {
		return nil, err
	}
	d.Proto.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{toCluster, forward}}}
	return plan.Freeze(resource.Listener, k.name(), d.Proto)
}
