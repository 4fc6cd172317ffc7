package passing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
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

// maxSets bounds the sets that are remembered. There are never so many proxies.
const maxSets = 512

// Role says what some proxies of a zone are for.
type Role struct {
	// Serves reports whether they pass on connections of a mesh.
	Serves func(m *view.Mesh) bool
	// Leads returns the endpoints of a service to which they lead, and how many are left out because
	// they are [Astray]. zone is the own one, and proxies are where its proxies are.
	Leads func(s *view.MeshService, zone string, proxies map[netip.AddrPort]bool) (out []view.Endpoint, left int)
	// ToIngresses says that they may lead to ingresses of the own zone. These lead to none of them, so
	// that no connection goes in circles.
	ToIngresses bool
}

// Astray reports whether a connection must not be led to an endpoint: nobody knows where its name
// leads, or a proxy of the zone is there, so that the connection would go in circles.
func Astray(e *view.Endpoint, proxies map[netip.AddrPort]bool) bool {
	at, err := netip.ParseAddr(e.Address)
	return err != nil || proxies[netip.AddrPortFrom(at.Unmap(), uint16(e.Port))] //nolint:gosec // a port
}

// Beside is what proxies have besides what they pass on. Callers reach it instead of what is passed
// on under the same names.
type Beside struct {
	Clusters, Routes, Secrets []*resource.Resource
	// Chains are named by the server names in Names, which are different ones.
	Chains []*listenerv3.FilterChain
	Names  []string
	// Barred are the services, by mesh and name, of which nothing is passed on though not all that
	// they have is here.
	Barred map[[2]string]bool
	// Allowed are the secrets that proxies may ask for, with their generations.
	Allowed map[string]string
}

// Planner plans the proxies of one role in one zone. One goroutine uses it.
type Planner struct {
	role   Role
	zone   string
	meshes map[string]*meshPart
	// proxies are where the proxies of the zone listen or are found to which these must not lead.
	proxies map[netip.AddrPort]bool
	// The tables and chains are those of all services.
	clusters, endpoints *resource.Table
	chains              []*listenerv3.FilterChain
	failures, clashes   []plan.Failure
	// beside is what the proxies have besides what they pass on.
	beside Beside
	// sets are the last ones, by where a proxy listens. Proxies differ in nothing else.
	sets map[netip.AddrPort]*resource.Set
}

// meshPart is what a mesh contributes, with the state that it was made of.
type meshPart struct {
	state    *view.Mesh
	services map[string]made
	// leads says of each service whether it leads anywhere, and leading counts those that do. Others
	// take no room.
	leads   map[string]lead
	leading int
	// due is set when the state is newer than the services.
	due bool
	// room is how many services have chains, and sets how many sets of tags each may have. left
	// counts the services that are too many.
	room, sets, left int
}

// lead says whether a service leads to endpoints, and whether some are left out.
type lead struct {
	of           *view.MeshService
	some, astray bool
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
	changed, moved, serving := false, p.locate(z), 0
	seen := map[string]bool{}
	for name, m := range z.Meshes() {
		if !p.role.Serves(m) {
			continue
		}
		seen[name] = true
		part := p.meshes[name]
		if part == nil {
			part = &meshPart{services: map[string]made{}, leads: map[string]lead{}}
			p.meshes[name] = part
		}
		if part.state != m || moved {
			part.state, part.due = m, true
			p.survey(part, moved)
		}
		if part.leading > 0 {
			serving++
		}
	}
	for name, part := range p.meshes {
		if !seen[name] {
			delete(p.meshes, name)
			changed = true
			continue
		}
		room, sets := chains.Shares(serving, part.leading)
		sets = min(sets, maxSubsets)
		anew := moved || part.room != room || part.sets != sets
		if !anew && !part.due {
			continue
		}
		part.room, part.sets, part.due = room, sets, false
		changed = p.mesh(part, anew) || changed
	}
	if changed {
		p.gather()
	}
	p.note(z)
}

// survey finds out which services of a mesh lead anywhere. It asks only those that are not the same
// as before, or all of them.
func (p *Planner) survey(part *meshPart, anew bool) {
	known := map[string]bool{}
	part.leading = 0
	for s := range part.state.Services() {
		known[s.Name] = true
		if part.leads[s.Name].of != s || anew {
			l, err := plan.Protect(s, func(s *view.MeshService) (lead, error) {
				to, astray := p.role.Leads(s, p.zone, p.proxies)
				return lead{s, len(to) > 0, astray > 0}, nil
			})
			if err != nil { // it is told when the service is made
				l = lead{of: s, some: true}
			}
			part.leads[s.Name] = l
		}
		if part.leads[s.Name].some {
			part.leading++
		}
	}
	maps.DeleteFunc(part.leads, func(name string, _ lead) bool { return !known[name] })
}

// locate notes to which proxies of the zone these must not lead, and reports whether that is news.
func (p *Planner) locate(z *view.Zone) (moved bool) {
	at := map[netip.AddrPort]bool{}
	add := func(address string, port uint32) {
		if ip, err := netip.ParseAddr(address); err == nil && port <= math.MaxUint16 {
			at[netip.AddrPortFrom(ip.Unmap(), uint16(port))] = true
		}
	}
	for _, e := range z.Ingresses() {
		if p.role.ToIngresses {
			break
		}
		add(e.Spec.Listens())
		if n := e.Spec.Networking; n != nil {
			add(n.AdvertisedAddress, n.AdvertisedPort)
		}
	}
	for _, e := range z.Egresses() {
		add(e.Spec.Listens())
	}
	moved = p.zone != z.Name() || !maps.Equal(p.proxies, at)
	p.zone, p.proxies = z.Name(), at
	return moved
}

// served returns the services of a mesh that have room, or nothing but something to tell, and how
// many have no room.
func served(part *meshPart) (of []*view.MeshService, left int) {
	var silent []*view.MeshService
	for _, l := range part.leads {
		if l.some {
			of = append(of, l.of)
		} else if l.astray {
			silent = append(silent, l.of)
		}
	}
	slices.SortFunc(of, func(a, b *view.MeshService) int { return cmp.Compare(a.Name, b.Name) })
	if len(of) > part.room {
		of, left = of[:part.room], len(of)-part.room
	}
	return append(of, silent...), left
}

// mesh makes the services of a mesh that are not the same as before, or all of them.
func (p *Planner) mesh(part *meshPart, anew bool) (changed bool) {
	name, known := part.state.Name(), map[string]bool{}
	var of []*view.MeshService
	of, part.left = served(part)
	for _, s := range of {
		known[s.Name] = true
		old := part.services[s.Name]
		if old.of == s && !anew {
			continue
		}
		changed = true
		now, err := plan.Protect(s, func(s *view.MeshService) (*service, error) { return p.build(part, s) })
		if err != nil {
			now = &service{}
			if old.service != nil {
				*now = *old.service
			}
			now.failures = []plan.Failure{{Cell: cell(name, s.Name), Err: err, Kept: old.service != nil}}
		}
		part.services[s.Name] = made{s, now}
	}
	for service := range part.services {
		if !known[service] {
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
	for name, part := range p.meshes {
		if part.left > 0 {
			p.failures = append(p.failures, plan.Failure{Cell: "mesh " + name, Err: fmt.Errorf("%d services are too many: callers cannot reach them", part.left)})
		}
		for _, s := range part.services {
			p.failures = append(p.failures, s.failures...)
		}
	}
	p.failures = append(p.failures, p.clashes...)
	slices.SortStableFunc(p.failures, func(a, b plan.Failure) int { return cmp.Compare(a.Cell, b.Cell) })
}

// Put replaces what proxies have besides what they pass on.
func (p *Planner) Put(b Beside) {
	p.beside = b
	p.gather()
}

// gather makes the tables. Server names are the same in upper and lower case, so of tags that
// differ in nothing else one set wins.
func (p *Planner) gather() {
	chains := slices.Clone(p.beside.Chains)
	var clusters, endpoints []*resource.Resource
	taken, own := map[string]string{}, map[string]bool{}
	for _, sni := range p.beside.Names {
		own[strings.ToLower(sni)] = true
	}
	p.clashes = nil
	for _, name := range slices.Sorted(maps.Keys(p.meshes)) {
		services := p.meshes[name].services
		for _, s := range slices.Sorted(maps.Keys(services)) {
			if p.beside.Barred[[2]string{name, s}] {
				continue
			}
			clusters, endpoints = append(clusters, services[s].clusters...), append(endpoints, services[s].endpoints...)
			for _, c := range services[s].chains {
				sni := strings.ToLower(c.GetName())
				if own[sni] {
					continue
				}
				if by, is := taken[sni]; is {
					if by != s {
						p.clashes = append(p.clashes, plan.Failure{Cell: cell(name, s), Err: fmt.Errorf("in a server name it is the same as service %s, which callers reach instead", by)})
					}
					continue
				}
				taken[sni] = s
				chains = append(chains, c)
			}
		}
	}
	beside := map[string]*resource.Resource{}
	for _, c := range p.beside.Clusters {
		beside[c.Name] = c
	}
	named := func(r *resource.Resource) bool { return beside[r.Name] != nil }
	clusters = slices.AppendSeq(slices.DeleteFunc(clusters, named), maps.Values(beside))
	endpoints = slices.DeleteFunc(endpoints, named)
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
	if len(p.beside.Chains) > 0 {
		tables[resource.Route], tables[resource.Secret] = resource.TableOf(p.beside.Routes), resource.TableOf(p.beside.Secrets)
	}
	if len(p.chains) > 0 { // Envoy takes no listener that leads nowhere
		l, err := plan.Protect(key, p.listener)
		if err != nil {
			return nil, err
		}
		tables[resource.Listener] = resource.TableOf([]*resource.Resource{l})
	}
	set := resource.Assemble(tables, p.beside.Allowed)
	if len(p.sets) >= maxSets { // most are of proxies that listen elsewhere now
		clear(p.sets)
	}
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
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(plan.ConnectionBuffer), MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
		ListenerFilters: []*listenerv3.ListenerFilter{{
			Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
		}},
		ListenerFiltersTimeout: durationpb.New(inspectTimeout),
		FilterChains:           p.chains,
	}
	return plan.Freeze(resource.Listener, l.Name, l)
}
