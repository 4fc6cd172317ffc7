package view

import (
	"iter"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Dataplane is a proxy in a view.
type Dataplane = Entry[mesh.Dataplane]

// MeshService is one service of a mesh with its endpoints. It is immutable, and keeps its
// pointer as long as it does not change.
type MeshService struct {
	Name string
	// Endpoints of all inbounds except the ignored ones, and of the ingresses of other zones,
	// ordered by address and port.
	Endpoints []Endpoint
	// Named is set if the address of an endpoint is a name.
	Named bool
}

// Endpoint is one place where a service is.
type Endpoint = mesh.Endpoint

// Mesh is the state of one mesh at one store revision. It is immutable and
// shared by all readers.
type Mesh struct {
	name     string
	revision uint64
	// spec is nil while the mesh does not exist.
	spec       *Entry[mesh.Mesh]
	trust      *Entry[mesh.Trust]
	dataplanes table[*Dataplane]
	services   table[*MeshService]
	// inbounds counts the inbounds of each service, ready or not, and what other zones have of it.
	inbounds table[int]
	// kinds are the kinds, by name, that the mesh holds in addition to its own: policies, and
	// kinds that locate services.
	kinds map[string]*model.Kind
	// policies holds the policies of a kind, by kind name and policy name.
	policies map[string]policyIndex
	// located holds the resources that locate services, by kind name.
	located map[string]locatedIndex
	// naming holds what VirtualOutbounds call inbounds, addresses the stored ones by host name.
	naming    naming
	addresses table[*Entry[mesh.Address]]
	// remote is what there is in other zones.
	remote remote
}

// Name returns the mesh's name.
func (m *Mesh) Name() string { return m.name }

// Revision returns the store revision of this state, which is complete.
func (m *Mesh) Revision() uint64 { return m.revision }

// Spec returns the mesh itself, nil while it does not exist.
func (m *Mesh) Spec() *Entry[mesh.Mesh] { return m.spec }

// Trust returns the roots that the mesh trusts, nil before its authority is made.
func (m *Mesh) Trust() *Entry[mesh.Trust] { return m.trust }

// Dataplane returns a proxy by name.
func (m *Mesh) Dataplane(name string) (*Dataplane, bool) { return m.dataplanes.get(name) }

// Dataplanes yields all proxies in no particular order.
func (m *Mesh) Dataplanes() iter.Seq[*Dataplane] { return values(m.dataplanes) }

// Service returns a service that some inbound serves, ready or not; nil if nobody serves it.
func (m *Mesh) Service(name string) *MeshService { s, _ := m.services.get(name); return s }

// Services yields all services in no particular order.
func (m *Mesh) Services() iter.Seq[*MeshService] { return values(m.services) }

// CountServices returns how many there are.
func (m *Mesh) CountServices() int { return m.services.size }

// Policies yields the policies of a kind, ordered by name.
func (m *Mesh) Policies(k *model.Kind) iter.Seq[*Policy] { return m.policies[k.Name].all() }

// Lacks reports whether there are no policies of a kind.
func (m *Mesh) Lacks(k *model.Kind) bool { return m.policies[k.Name].none() }

// Candidates yields the policies of a kind that may have a matching destination, or target, for
// the service, ordered by name. One of those selects the service by its name or by *, or does
// not mention the service tag.
func (m *Mesh) Candidates(k *model.Kind, service string) iter.Seq[*Policy] {
	return m.policies[k.Name].candidates(service)
}

// Policy returns a policy of a kind by name, nil if there is none.
func (m *Mesh) Policy(k *model.Kind, name string) *Policy { return m.policies[k.Name].get(name) }
