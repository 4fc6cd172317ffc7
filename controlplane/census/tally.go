package census

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// tally holds the counts of one mesh while they change.
type tally struct {
	name string
	// exists says that the mesh itself exists; created is when it was made.
	exists  bool
	created time.Time

	byClass           [classes]Counts
	agents, proxies   map[string]Counts
	issued, supported map[string]Counts
	resources         map[string]int
	policies          map[string]int
	services          map[string]*service
	internal          int // services that dataplanes serve
	externals         int // ExternalServices

	// stale are the services that changed since the last freeze.
	stale map[string]bool
	// frozen is the result of the last freeze, nil if there is none.
	frozen *Mesh
}

// service holds the counts of one service while they change.
type service struct {
	byClass [classes]Counts
	issued  map[string]int
	zones   map[string]int
	// addresses are those of ExternalServices by name.
	addresses map[string]string
}

func newTally(name string) *tally {
	return &tally{
		name: name, agents: map[string]Counts{}, proxies: map[string]Counts{}, issued: map[string]Counts{}, supported: map[string]Counts{},
		resources: map[string]int{}, policies: map[string]int{}, services: map[string]*service{}, stale: map[string]bool{},
	}
}

// add counts a dataplane n times; -1 takes it away.
func (t *tally) add(s *share, n int) {
	t.byClass[s.class].add(s.status, n)
	bump(t.agents, s.agent, s.status, n)
	bump(t.proxies, s.proxy, s.status, n)
	bump(t.issued, s.issued, s.status, n)
	for _, b := range s.supported {
		bump(t.supported, b, s.status, n)
	}
	for _, v := range s.serves {
		svc := t.service(v.service)
		before := svc.dataplanes().Total
		svc.byClass[v.as].add(s.status, n)
		if s.issued != "" {
			tick(svc.issued, s.issued, n)
		}
		for _, zone := range v.zones {
			tick(svc.zones, zone, n)
		}
		switch after := svc.dataplanes().Total; {
		case before == 0:
			t.internal++
		case after == 0:
			t.internal--
		}
	}
}

// service returns the counts of a service, which are then frozen again.
func (t *tally) service(name string) *service {
	t.stale[name] = true
	svc := t.services[name]
	if svc == nil {
		svc = &service{issued: map[string]int{}, zones: map[string]int{}, addresses: map[string]string{}}
		t.services[name] = svc
	}
	return svc
}

func (s *service) dataplanes() (all Counts) {
	for _, c := range s.byClass {
		all = all.plus(c)
	}
	return all
}

// kind returns the type of a service. What dataplanes serve is not external, and what any
// workload serves is not a gateway.
func (s *service) kind() string {
	for i, kind := range []string{TypeInternal, TypeBuiltin, TypeDelegated} {
		if s.byClass[i].Total > 0 {
			return kind
		}
	}
	return TypeExternal
}

// freeze returns an insight without a ModificationTime, or nil if nothing serves the service any more.
func (s *service) freeze(t *tally, name string) *ServiceInsight {
	all := s.dataplanes()
	if all.Total == 0 && len(s.addresses) == 0 {
		return nil
	}
	out := &ServiceInsight{
		Type: "ServiceInsight", Mesh: t.name, Name: name, CreationTime: t.created, Status: StatusUncertain,
		Dataplanes: Counts{Total: all.Total, Online: all.Online, Offline: all.Offline + all.PartiallyDegraded},
		Zones:      slices.Sorted(maps.Keys(s.zones)),
	}
	if len(s.issued) > 0 {
		out.Issued = maps.Clone(s.issued)
	}
	switch {
	case all.Total == 0:
	case all.Online == all.Total:
		out.Status = StatusOnline
	case all.Online == 0:
		out.Status = StatusOffline
	default:
		out.Status = StatusDegraded
	}
	switch kind := s.kind(); kind {
	case TypeInternal:
		out.AddressPort = mesh.ServiceHost(name) + ":80"
	case TypeExternal:
		out.ServiceType, out.AddressPort = kind, s.addresses[slices.Min(slices.Collect(maps.Keys(s.addresses)))]
	default:
		out.ServiceType = kind
	}
	return out
}

// summary is the status of a service as that of a dataplane, for counting.
func (s *ServiceInsight) summary() string {
	switch s.Status {
	case StatusOnline:
		return insight.Online
	case StatusDegraded:
		return insight.PartiallyDegraded
	}
	return insight.Offline
}

// freeze returns the counts as an immutable value, which was modified now if it differs from that
// before. replaced is called with each service that changed, before and after, nil for none. A mesh
// that does not exist has no value.
func (t *tally) freeze(now time.Time, replaced func(old, new *ServiceInsight)) *Mesh {
	var services []*ServiceInsight
	if t.frozen != nil {
		services = t.frozen.services
	}
	if len(t.stale) > 0 || !t.exists {
		services = t.renew(services, now, replaced)
	}
	t.stale = map[string]bool{}
	old := t.frozen
	if t.frozen = nil; !t.exists {
		return nil
	}
	gateways := t.byClass[builtin].plus(t.byClass[delegated])
	t.frozen = &Mesh{services: services, insight: MeshInsight{
		Type: "MeshInsight", Name: t.name, CreationTime: t.created,
		Dataplanes: gateways.plus(t.byClass[standard]),
		ByType:     ByType{t.byClass[standard], gateways, t.byClass[builtin], t.byClass[delegated]},
		Policies:   totals(t.policies), Resources: totals(t.resources),
		Versions: Versions{maps.Clone(t.agents), maps.Clone(t.proxies)},
		MTLS:     Backends{maps.Clone(t.issued), maps.Clone(t.supported)},
		Services: Services{Total: t.internal + t.externals, Internal: t.internal, External: t.externals},
	}}
	in := &t.frozen.insight
	if old != nil {
		in.ModificationTime, in.LastSync = old.insight.ModificationTime, old.insight.LastSync
	}
	if old == nil || !reflect.DeepEqual(in, &old.insight) {
		in.ModificationTime, in.LastSync = now, now
	}
	return t.frozen
}

// renew returns the services with the stale ones replaced, by name; none if the mesh is gone.
func (t *tally) renew(old []*ServiceInsight, now time.Time, replaced func(old, new *ServiceInsight)) []*ServiceInsight {
	if !t.exists {
		for _, s := range old {
			replaced(s, nil)
		}
		return nil
	}
	out := make([]*ServiceInsight, 0, len(old)+len(t.stale))
	names := slices.Sorted(maps.Keys(t.stale))
	take := func() {
		name := names[0]
		names = names[1:]
		var before *ServiceInsight
		if len(old) > 0 && old[0].Name == name {
			before, old = old[0], old[1:]
		}
		var after *ServiceInsight
		if svc := t.services[name]; svc != nil {
			after = svc.freeze(t, name)
		}
		if after != nil {
			if before != nil {
				after.ModificationTime = before.ModificationTime
			}
			if !reflect.DeepEqual(before, after) {
				after.ModificationTime = now
			}
			out = append(out, after)
		} else {
			delete(t.services, name)
		}
		replaced(before, after)
	}
	for len(old) > 0 {
		if len(names) > 0 && names[0] <= old[0].Name {
			take()
			continue
		}
		out, old = append(out, old[0]), old[1:]
	}
	for len(names) > 0 {
		take()
	}
	return out
}

func totals(counts map[string]int) map[string]Total {
	out := make(map[string]Total, len(counts))
	for typ, n := range counts {
		out[typ] = Total{n}
	}
	return out
}
