package census

import (
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// State is everything that was counted, as of one moment. It never changes, and neither does what
// its methods return.
type State struct {
	// revision is that of the store up to which it counts, and marks the number of changes of
	// proxies.
	revision, marks uint64
	meshes          []*Mesh
	zones           []ZoneStatus
	global          map[string]int
	all             All
}

// Mesh is what was counted in one mesh.
type Mesh struct {
	insight  MeshInsight
	services []*ServiceInsight
}

// Insight returns the counts of the mesh.
func (m *Mesh) Insight() *MeshInsight { return &m.insight }

// Services returns the services of the mesh, by name.
func (m *Mesh) Services() []*ServiceInsight { return m.services }

// Service returns one service; NotFound if nothing serves it.
func (m *Mesh) Service(name string) (*ServiceInsight, error) {
	i, ok := slices.BinarySearchFunc(m.services, name, func(s *ServiceInsight, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil, fault.New(fault.NotFound, "nothing serves %s", name)
	}
	return m.services[i], nil
}

// Meshes returns all meshes, by name.
func (s *State) Meshes() []*Mesh { return s.meshes }

// Mesh returns one mesh; NotFound if there is none.
func (s *State) Mesh(name string) (*Mesh, error) {
	i, ok := s.search(name)
	if !ok {
		return nil, fault.New(fault.NotFound, "no such mesh")
	}
	return s.meshes[i], nil
}

func (s *State) search(name string) (int, bool) {
	return slices.BinarySearchFunc(s.meshes, name, func(m *Mesh, name string) int { return strings.Compare(m.insight.Name, name) })
}

// Zones returns all zones, by name.
func (s *State) Zones() []ZoneStatus { return s.zones }

// Global returns the counts of what belongs to no mesh.
func (s *State) Global(now time.Time) *GlobalInsights {
	return &GlobalInsights{Type: "GlobalInsights", CreationTime: now.UTC(), Resources: totals(s.global)}
}

// All returns the counts of everything.
func (s *State) All(now time.Time) *All {
	all := s.all
	all.CreatedAt = now.UTC()
	return &all
}
