package census

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// counter holds all counts while they change. One goroutine at a time uses it.
type counter struct {
	meshes map[string]*tally
	// shares are those of dataplanes, externals those of ExternalServices.
	shares    map[model.Key]*share
	externals map[model.Key]external
	// listed are for lists. Others read them meanwhile.
	listed directories
	// there are the counted resources of other kinds.
	there map[model.Key]bool
	// zones says of each whether it is enabled.
	zones  map[string]bool
	online map[model.Key]bool // zones and their proxies
	// global counts by type what belongs to no mesh. total and what follows count everything: what
	// is in meshes with their last state.
	global, total map[string]int
	policies      int
	byClass       [classes]Counts
	services      map[string]*Counts
	// dirty are the meshes that changed since the last state.
	dirty map[string]bool
	// of are the counted kinds by name, and policy those among them that count as policies.
	of     map[string]*model.Kind
	policy map[string]bool
}

// external is the share of an ExternalService.
type external struct{ service, address string }

func newCounter(kinds []*model.Kind) *counter {
	c := &counter{
		meshes: map[string]*tally{}, shares: map[model.Key]*share{}, externals: map[model.Key]external{}, there: map[model.Key]bool{},
		zones: map[string]bool{}, online: map[model.Key]bool{}, global: map[string]int{}, total: map[string]int{},
		services: map[string]*Counts{TypeInternal: {}, TypeBuiltin: {}, TypeDelegated: {}, TypeExternal: {}},
		dirty:    map[string]bool{}, of: map[string]*model.Kind{}, policy: map[string]bool{},
	}
	for _, k := range kinds {
		d := k.Document
		if d == nil || k.Scoping == model.ControlPlane {
			continue
		}
		c.of[k.Name] = k
		c.policy[k.Name] = d.Policy || d.Listed
		if k.Scoping == model.Global {
			c.global[d.Type] = 0
		}
	}
	c.listed = newDirectories(c.of)
	return c
}

// mesh returns the counts of a mesh, which are then frozen again.
func (c *counter) mesh(name string) *tally {
	c.dirty[name] = true
	t := c.meshes[name]
	if t == nil {
		t = newTally(name)
		c.meshes[name] = t
	}
	return t
}

// exists counts a resource, or no longer. It reports whether that is news.
func (c *counter) exists(key model.Key, is bool) bool {
	if c.there[key] == is {
		return false
	}
	n := 1
	if c.there[key] = true; !is {
		n = -1
		delete(c.there, key)
	}
	k := c.of[key.Kind]
	typ := k.Document.Type
	if k.Scoping == model.Global {
		tick(c.total, typ, n)
		c.global[typ] += n
		return true
	}
	t := c.mesh(key.Scope)
	tick(t.resources, typ, n)
	if c.policy[key.Kind] {
		tick(t.policies, typ, n)
	}
	return true
}

// dataplane replaces the share of a dataplane; nil takes it away. Most of what proxies report, such as
// a renewed certificate, changes no share.
func (c *counter) dataplane(key model.Key, s *share) {
	c.exists(key, s != nil)
	old := c.shares[key]
	if reflect.DeepEqual(old, s) {
		return
	}
	t := c.mesh(key.Scope)
	if old != nil {
		t.add(old, -1)
		delete(c.shares, key)
	}
	if s != nil {
		t.add(s, 1)
		c.shares[key] = s
	}
}

// reported replaces what is known about the proxy of a dataplane.
func (c *counter) reported(key model.Key, in *insight.DataplaneInsight) {
	if s := c.shares[key]; s != nil {
		c.dataplane(key, s.with(in))
	}
}

// external replaces the share of an ExternalService; nil takes it away.
func (c *counter) external(key model.Key, spec *mesh.ExternalService, is bool) {
	t := c.mesh(key.Scope)
	if c.exists(key, is) {
		if t.externals++; !is {
			t.externals -= 2
		}
	}
	if old, ok := c.externals[key]; ok {
		delete(t.service(old.service).addresses, key.Name)
		delete(c.externals, key)
	}
	if spec == nil || spec.Tags.Service() == "" || spec.Networking == nil {
		return
	}
	x := external{spec.Tags.Service(), spec.Networking.Address}
	t.service(x.service).addresses[key.Name] = x.address
	c.externals[key] = x
}

// meshed records that a mesh exists, or no longer.
func (c *counter) meshed(name string, is bool, created time.Time) {
	c.exists(model.Key{Kind: mesh.Meshes.Name, Name: name}, is)
	t := c.mesh(name)
	if !is {
		created = t.created
	}
	if t.exists != is || !t.created.Equal(created) {
		for service := range t.services {
			t.stale[service] = true // they say when the mesh was made
		}
	}
	t.exists, t.created = is, created
}

// zoned records a zone or a proxy of one, and whether it is connected. enabled is for zones.
func (c *counter) zoned(key model.Key, is, online, enabled bool) {
	c.exists(key, is)
	if key.Kind == mesh.Zones.Name {
		if delete(c.zones, key.Name); is {
			c.zones[key.Name] = enabled
		}
	}
	c.present(key, online)
}

// present records whether a zone or a proxy of one is connected, if it exists.
func (c *counter) present(key model.Key, online bool) {
	delete(c.online, key)
	if online && c.there[key] {
		c.online[key] = true
	}
}

// replaced counts the services of all meshes.
func (c *counter) replaced(old, new *ServiceInsight) {
	if old != nil {
		c.services[old.Kind()].add(old.summary(), -1)
	}
	if new != nil {
		c.services[new.Kind()].add(new.summary(), 1)
	}
}

// frozen counts what is in a mesh n times in the counts of everything; -1 takes it away. What belongs
// to a mesh that does not exist (nil) is not counted.
func (c *counter) frozen(m *Mesh, n int) {
	if m == nil {
		return
	}
	for typ, of := range m.insight.Resources {
		tick(c.total, typ, n*of.Total)
	}
	for _, of := range m.insight.Policies {
		c.policies += n * of.Total
	}
	by := m.insight.ByType
	for class, of := range [classes]Counts{standard: by.Standard, builtin: by.GatewayBuiltin, delegated: by.GatewayDelegated} {
		c.byClass[class] = c.byClass[class].plus(of.times(n))
	}
}

// state returns the counts as an immutable value that follows old.
func (c *counter) state(old *State, now time.Time) *State {
	s := &State{}
	if old != nil {
		s.meshes = old.meshes
	}
	if len(c.dirty) > 0 {
		s.meshes = slices.Clone(s.meshes)
	}
	for name := range c.dirty {
		t := c.meshes[name]
		c.frozen(t.frozen, -1)
		m := t.freeze(now, c.replaced)
		c.frozen(m, 1)
		i, ok := s.search(name)
		switch {
		case ok && m == nil:
			s.meshes = slices.Delete(s.meshes, i, i+1)
		case ok:
			s.meshes[i] = m
		case m != nil:
			s.meshes = slices.Insert(s.meshes, i, m)
		}
		if m == nil && len(t.resources) == 0 {
			delete(c.meshes, name)
		}
	}
	c.dirty = map[string]bool{}
	s.global = maps.Clone(c.global)
	for _, name := range slices.Sorted(maps.Keys(c.zones)) {
		s.zones = append(s.zones, ZoneStatus{Name: name, Active: c.zones[name] && c.online[model.Key{Kind: mesh.Zones.Name, Name: name}]})
	}
	s.all = c.all(len(s.meshes))
	return s
}

func (c *counter) all(meshes int) All {
	all := All{
		Meshes: Total{meshes}, Policies: Total{c.policies}, Resources: totals(c.total),
		Dataplanes: AllByType{c.byClass[standard].full(), c.byClass[builtin].full(), c.byClass[delegated].full()},
		Services: AllServices{
			c.services[TypeInternal].full(), c.services[TypeBuiltin].full(), c.services[TypeDelegated].full(), Total{c.services[TypeExternal].Total},
		},
	}
	for k, p := range map[*model.Kind]*Present{
		mesh.Zones: &all.Zones.ControlPlanes, mesh.ZoneIngresses: &all.Zones.ZoneIngresses, mesh.ZoneEgresses: &all.Zones.ZoneEgresses,
	} {
		p.Total = c.total[k.Document.Type]
	}
	for key := range c.online {
		switch key.Kind {
		case mesh.Zones.Name:
			all.Zones.ControlPlanes.Online++
		case mesh.ZoneIngresses.Name:
			all.Zones.ZoneIngresses.Online++
		case mesh.ZoneEgresses.Name:
			all.Zones.ZoneEgresses.Online++
		}
	}
	return all
}
