package model

import (
	"github.com/invopop/jsonschema"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Document describes a kind whose entities are documents: the form of the mesh
// API (requirement "Mesh Control-Plane HTTP API"). A document is a JSON object
// with type, mesh, name, times and labels, and the fields of the spec beside
// them. Kinds with a Document have no Schema.
//
// Spec types are Go structs whose JSON names are those of the wire; see
// [DecodeDocument] for how input is read.
type Document struct {
	// Schema is that of the spec; [Describe] makes it.
	Schema *jsonschema.Schema
	// Type is the wire type, such as TrafficRoute.
	Type string
	// Aliases are further wire types that are accepted on input.
	Aliases []string
	// Singular and Plural are what people read, such as Traffic Routes.
	Singular, Plural string
	// Policy says that the kind is listed at /policies; Inbound and Outbound say
	// where a policy acts.
	Policy, Inbound, Outbound bool
	// AdminOnly kinds are read and written by administrators only.
	AdminOnly bool
	// Default completes a spec before it is validated. It may change the spec.
	Default func(spec any)
	// Validate returns every violation of a spec by itself, with paths such as
	// sources[0].match["mesh.io/service"].
	Validate func(spec any) []fault.Violation
	// Cross checks a resource against others inside the transaction; old is the
	// stored one, nil at a creation.
	Cross func(g Getter, old, r *Resource) ([]fault.Violation, error)
}

// Selecting is what the spec of a policy tells an index: which tag sets it
// selects. Views index policies by it and never by type.
type Selecting interface {
	// SelectedSources returns the tag sets of the sources; nil if a policy has no
	// sources, for then it is chosen by its destinations alone.
	SelectedSources() []map[string]string
	// SelectedDestinations returns the tag sets of the destinations, or of the
	// selectors of a policy on whole proxies.
	SelectedDestinations() []map[string]string
}

// Labelled is embedded by the specs of documents: labels are kept with the spec.
type Labelled struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// LabelsOf returns the labels of a spec that has some.
func (l *Labelled) LabelsOf() map[string]string { return l.Labels }

// SetLabels replaces the labels.
func (l *Labelled) SetLabels(labels map[string]string) { l.Labels = labels }

// MeshKind is the name of the kind whose resources are the scopes of
// mesh-scoped kinds.
const MeshKind = "mesh"

// LabelsOf returns the labels of a spec, nil if it has none.
func LabelsOf(spec any) map[string]string {
	if l, ok := spec.(interface{ LabelsOf() map[string]string }); ok {
		return l.LabelsOf()
	}
	return nil
}
