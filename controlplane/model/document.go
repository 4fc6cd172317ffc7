package model

import (
	"github.com/invopop/jsonschema"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Document describes a kind whose entities are documents, the form of the mesh API
// (requirement "Mesh Control-Plane HTTP API"). A document is a JSON object with type, mesh,
// name, times and labels, and beside them the fields of the spec. Kinds with a Document have
// no Schema.
//
// Spec types are Go structs with the JSON names of the API; see [DecodeDocument] for how
// input is read.
type Document struct {
	// Schema is the schema of the spec; [Describe] makes it.
	Schema *jsonschema.Schema
	// Type is the type in documents, such as TrafficRoute.
	Type string
	// Aliases are further types that are accepted in input.
	Aliases []string
	// OtherPaths are further collections in which clients look for the documents.
	OtherPaths []string
	// Singular and Plural are names for people, such as Traffic Routes.
	Singular, Plural string
	// Policy is set if the kind is listed at /policies. Inbound, Outbound and Proxy say where a
	// policy acts: on one of the first two, or on whole proxies.
	Policy, Inbound, Outbound, Proxy bool
	// Listed is set for kinds that are listed at /policies, too, although nothing is chosen from
	// them for the places of a sidecar.
	Listed bool
	// Written says where the documents are written if there are several zones.
	Written Written
	// AdminOnly is set for kinds that only administrators may read and write.
	AdminOnly bool
	// Default completes a spec before it is validated. It may change the spec.
	Default func(spec any)
	// Validate returns all violations of a spec, without looking at other resources. Paths
	// have the form sources[0].match["mesh.io/service"].
	Validate func(spec any) []fault.Violation
	// Idle returns the members of a valid spec that have no effect. Authors are warned of them.
	Idle func(spec any) []fault.Violation
	// Keep returns the spec to store in place of one that its author has sent: with what only
	// others know. It changes neither spec. old is the stored resource, nil at a creation.
	Keep func(old *Resource, spec any) any
	// Cross checks a resource against others inside the transaction. old is the stored
	// resource, nil at a creation.
	Cross func(g Getter, old, r *Resource) ([]fault.Violation, error)
}

// Written says by which control planes documents are written if there are several zones.
type Written int

// The control planes that write: the global one, those of zones, or each.
const (
	ByGlobal Written = iota
	ByZones
	ByEach
)

// Selecting tells an index which tag sets the spec of a policy selects. Views index policies
// by it and never by type.
type Selecting interface {
	// SelectedSources returns the tag sets of the sources. It is nil if a policy has no
	// sources, because it is then chosen by its destinations alone.
	SelectedSources() []map[string]string
	// SelectedDestinations returns the tag sets of the destinations, or of the selectors of a
	// policy on whole proxies.
	SelectedDestinations() []map[string]string
}

// Targeting is implemented by the specs of policies that say which proxies they are for. Their
// sources are then those who call these proxies, and their destinations what these call.
type Targeting interface {
	Selecting
	// SelectedTargets returns the tag sets of the proxies, or of their inbounds. It is never
	// empty: a policy that is for everything returns an empty tag set.
	SelectedTargets() []map[string]string
}

// Labelled is embedded by the specs of documents, so that labels are stored with the spec.
type Labelled struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// LabelsOf returns the labels of a spec.
func (l *Labelled) LabelsOf() map[string]string { return l.Labels }

// SetLabels replaces the labels.
func (l *Labelled) SetLabels(labels map[string]string) { l.Labels = labels }

// MeshKind is the name of the kind whose resources are the scopes of mesh-scoped kinds.
const MeshKind = "mesh"

// LabelsOf returns the labels of a spec, nil if it has none.
func LabelsOf(spec any) map[string]string {
	if l, ok := spec.(interface{ LabelsOf() map[string]string }); ok {
		return l.LabelsOf()
	}
	return nil
}
