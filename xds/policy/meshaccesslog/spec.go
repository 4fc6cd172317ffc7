// Package meshaccesslog is the policy by which the proxies of its target log requests and
// connections: those of their callers (from), and those that they send to services (to). All
// policies whose target matches count: the strongest that says anything about somebody decides
// where these are logged.
package meshaccesslog

import (
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Resource is the policy as users write it, with everything below spec.
type Resource struct {
	model.Labelled
	Spec *Spec `json:"spec,omitempty"`
}

// Spec says which proxies log what.
type Spec struct {
	TargetRef *target.Ref         `json:"targetRef,omitempty"`
	From      []target.Item[Conf] `json:"from,omitempty"`
	To        []target.Item[Conf] `json:"to,omitempty"`
}

// Conf says where something is logged. Without backends it is logged nowhere.
type Conf struct {
	Backends []Backend `json:"backends,omitempty"`
}

// These are the types of backends.
const (
	typeTCP           = "Tcp"
	typeFile          = "File"
	typeOpenTelemetry = "OpenTelemetry"
)

// Backend has the member for its type.
type Backend struct {
	Type          string         `json:"type,omitempty"`
	TCP           *TCP           `json:"tcp,omitempty"`
	File          *File          `json:"file,omitempty"`
	OpenTelemetry *OpenTelemetry `json:"openTelemetry,omitempty"`
}

// TCP is a server that takes lines: see [mesh.CheckLogAddress].
type TCP struct {
	Address string  `json:"address,omitempty"`
	Format  *Format `json:"format,omitempty"`
}

// File is a file of the proxy's machine: see [mesh.CheckLogFile].
type File struct {
	Path   string  `json:"path,omitempty"`
	Format *Format `json:"format,omitempty"`
}

// These are the types of formats.
const (
	formatPlain = "Plain"
	formatJSON  = "Json"
)

// Format is that of a line: a text, or the members of an object. See [mesh.ParseLogFormat].
type Format struct {
	Type  string  `json:"type,omitempty"`
	Plain *string `json:"plain,omitempty"`
	JSON  []Field `json:"json,omitempty"`
	// OmitEmptyValues is refused if it is set.
	OmitEmptyValues *bool `json:"omitEmptyValues,omitempty"`
}

// Field is a member of an object, or an attribute of a record.
type Field struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// OpenTelemetry is a collector that gets records in OTLP: see [logging.CollectorAt].
type OpenTelemetry struct {
	Endpoint   string  `json:"endpoint,omitempty"`
	Attributes []Field `json:"attributes,omitempty"`
	// Body is an AnyValue of OTLP in JSON: {"stringValue": ...} or {"kvlistValue": ...}.
	Body json.RawMessage `json:"body,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Resource{}, model.Kind{
	Name: "mesh_access_log", Path: "meshaccesslogs", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "MeshAccessLog", Singular: "Mesh Access Log", Plural: "Mesh Access Logs",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits listeners, and tells agents of sinks and Envoy of collectors.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByInbound | policy.AllByService, Order: target.Order, Sourced: true, Refuses: policy.RefusesNobody,
	Edits:   policy.Edits{Inbound: inbound, Outbound: outbound, Contribute: contribute},
	Explain: explain, Rules: rules,
}

// Target implements target.Targeted.
func (r *Resource) Target() *target.Ref {
	if r.Spec == nil {
		return nil
	}
	return r.Spec.TargetRef
}

// SelectedTargets implements model.Targeting.
func (r *Resource) SelectedTargets() []map[string]string { return r.Target().Selected() }

// SelectedSources implements model.Selecting: the callers.
func (r *Resource) SelectedSources() []map[string]string { return target.Selected(from(r)) }

// SelectedDestinations implements model.Selecting: the called services.
func (r *Resource) SelectedDestinations() []map[string]string { return target.Selected(to(r)) }

func from(spec any) []target.Item[Conf] {
	if r, ok := spec.(*Resource); ok && r.Spec != nil {
		return r.Spec.From
	}
	return nil
}

func to(spec any) []target.Item[Conf] {
	if r, ok := spec.(*Resource); ok && r.Spec != nil {
		return r.Spec.To
	}
	return nil
}
