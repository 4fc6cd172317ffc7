package passing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// inspectTimeout bounds how long a client may take to say what a connection is for.
const inspectTimeout = 5 * time.Second

// Role says what some proxies of a zone are for.
type Role struct {
	// Serves reports whether they pass on connections of a mesh.
	Serves func(m *view.Mesh) bool
	// Leads returns the endpoints of a service to which they lead. zone is the own one.
	Leads func(s *view.MeshService, zone string) []view.Endpoint
}

// Planner plans the proxies of one role in one zone. One goroutine uses it.
type Planner struct {
	role   Role
	meshes map[string]*meshPart
	// The tables and chains are those of all services.
	clusters, endpoints *resource.Table
	chains              []*listenerv3.FilterChain
	failures            []plan.Failure
	// sets are the last ones, by where a proxy listens. Proxies differ in nothing else.
	sets map[netip.AddrPort]*resource.Set
}

// meshPart is what a mesh contributes, with the state that it was made of.
type meshPart struct {
	state    *view.Mesh
	services map[string]made
}

type made struct {
	of *view.MeshService
	*service
}

// New returns a planner that knows nothing.
func New(role Role) *Planner {
	return &Planner{role: role, meshes: map[string]*meshPart{}, sets: map[netip.AddrPort]*resource.Set{}}
}

// Update takes a state of the zone. It looks only at meshes and services that are not the same as
// before. A service that cannot be made keeps what it contributed before.
func (p *Planner) Update(z *view.Zone) {
	changed := false
	seen := map[string]bool{}
	for name, m := range z.Meshes() {
		if !p.role.Serves(m) {
			continue
		}
		seen[name] = true
		if part := p.meshes[name]; part == nil || part.state != m {
			changed = p.mesh(z.Name(), name, m) || changed
		}
	}
	for name := range p.meshes {
		if !seen[name] {
			delete(p.meshes, name)
			changed = true
		}
	}
	p.note(z)
	if changed {
		p.gather()
	}
}

func (p *Planner) mesh(zone, name string, m *view.Mesh) (changed bool) {
	part := p.meshes[name]
	if part == nil {
		part = &meshPart{services: map[string]made{}}
		p.meshes[name] = part
	}
	part.state = m
	for s := range m.Services() {
		old := part.services[s.Name]
		if old.of == s {
			continue
		}
		changed = true
		now, err := plan.Protect(s, func(s *view.MeshService) (*service, error) { return build(name, s, p.role.Leads(s, zone)) })
		if err != nil {
			now = &service{}
			if old.service != nil {
				*now = *old.service
			}
			now.failures = []plan.Failure{{Cell: "service " + name + ":" + s.Name, Err: err, Kept: old.service != nil}}
		}
		part.services[s.Name] = made{s, now}
	}
	for service := range part.services {
		if m.Service(service) == nil {
			delete(part.services, service)
			changed = true
		}
	}
	return changed
}

// note lists what is not as configured.
func (p *Planner) note(z *view.Zone) {
	p.failures = nil
	for name, err := range z.Sick() {
		p.failures = append(p.failures, plan.Failure{Cell: strings.TrimSuffix("mesh "+name, " "), Err: err, Kept: p.meshes[name] != nil})
	}
	for _, part := range p.meshes {
		for _, s := range part.services {
			p.failures = append(p.failures, s.failures...)
		}
	}
	slices.SortFunc(p.failures, func(a, b plan.Failure) int { return cmp.Compare(a.Cell, b.Cell) })
}

// gather makes the tables. Server names are the same in upper and lower case, so of tags that
// differ in nothing else one set wins.
func (p *Planner) gather() {
	var clusters, endpoints []*resource.Resource
	var chains []*listenerv3.FilterChain
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.meshes)) {
		services := p.meshes[name].services
		for _, s := range slices.Sorted(maps.Keys(services)) {
			clusters, endpoints = append(clusters, services[s].clusters...), append(endpoints, services[s].endpoints...)
			for _, c := range services[s].chains {
				if sni := strings.ToLower(c.GetName()); !taken[sni] {
					taken[sni] = true
					chains = append(chains, c)
				}
			}
		}
	}
	p.clusters, p.endpoints, p.chains = p.clusters.Become(clusters), p.endpoints.Become(endpoints), chains
	clear(p.sets)
}

// Failures returns what is not as configured at any proxy.
func (p *Planner) Failures() []plan.Failure { return p.failures }

// Set returns the set of a proxy that listens on an address. It fails if it cannot listen there.
func (p *Planner) Set(address string, port uint32) (*resource.Set, error) {
	at, err := netip.ParseAddr(address)
	if err != nil || port == 0 || port > 65535 {
		return nil, fmt.Errorf("networking.address and networking.port are not where a proxy can listen: %s", strconv.Quote(address))
	}
	key := netip.AddrPortFrom(at, uint16(port))
	if set := p.sets[key]; set != nil {
		return set, nil
	}
	tables := map[resource.TypeURL]*resource.Table{resource.Cluster: p.clusters, resource.Endpoint: p.endpoints}
	if len(p.chains) > 0 { // Envoy takes no listener that leads nowhere
		l, err := plan.Protect(key, p.listener)
		if err != nil {
			return nil, err
		}
		tables[resource.Listener] = resource.TableOf([]*resource.Resource{l})
	}
	set := resource.Assemble(tables, nil)
	p.sets[key] = set
	return set, nil
}

func (p *Planner) listener(at netip.AddrPort) (*resource.Resource, error) {
	inspector, err := plan.Pack(&inspectorv3.TlsInspector{})
	if err != nil {
		return nil, errors.Join(errors.New("the inspector of server names"), err)
	}
	l := &listenerv3.Listener{
		Name: "inbound:" + at.String(), Address: socket(at.Addr().String(), uint32(at.Port())),
		TrafficDirection: corev3.TrafficDirection_INBOUND, EnableReusePort: wrapperspb.Bool(false),
		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
		ListenerFilters: []*listenerv3.ListenerFilter{{
			Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
		}},
		ListenerFiltersTimeout: durationpb.New(inspectTimeout),
		FilterChains:           p.chains,
	}
	return plan.Freeze(resource.Listener, l.Name, l)
}
