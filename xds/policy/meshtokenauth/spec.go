// Package meshtokenauth is the policy that requires bearer tokens on the HTTP inbounds of
// services: tokens of an oauth2 plugin instance of a control plane, or any token of its
// consumers. So one set of consumers and tokens protects both routes of a gateway and services
// of a mesh.
package meshtokenauth

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Resource is the policy as users write it, with everything below spec.
type Resource struct {
	model.Labelled
	Spec *Spec `json:"spec,omitempty"`
}

// Spec says where tokens are required, and which.
type Spec struct {
	TargetRef *TargetRef `json:"targetRef,omitempty"`
	From      []From     `json:"from,omitempty"`
}

// These are the kinds of targets.
const (
	targetMesh    = "Mesh"
	targetSubset  = "MeshSubset"
	targetService = "MeshService"
)

// TargetRef selects inbounds: all of the mesh, those with some tags, or those of a service.
type TargetRef struct {
	Kind string    `json:"kind,omitempty"`
	Name string    `json:"name,omitempty"`
	Tags mesh.Tags `json:"tags,omitempty"`
}

// From is what is required of callers. The only possible source is kind Mesh, which means
// everybody.
type From struct {
	TargetRef *TargetRef `json:"targetRef,omitempty"`
	Default   *Default   `json:"default,omitempty"`
}

// Default is the requirement: that of a plugin instance, or the configuration given here.
type Default struct {
	Plugin *Plugin `json:"plugin,omitempty"`
	Config *Config `json:"config,omitempty"`
}

// Plugin names an oauth2 plugin instance. It accepts the tokens of its service.
type Plugin struct {
	// ControlPlane is "default" if empty.
	ControlPlane string `json:"controlPlane,omitempty"`
	ID           string `json:"id,omitempty"`
}

// Config accepts tokens that are not bound to a service. The names are those of the oauth2
// plugin.
type Config struct {
	GlobalCredentials bool   `json:"global_credentials,omitempty"`
	AuthHeaderName    string `json:"auth_header_name,omitempty"`
	HideCredentials   bool   `json:"hide_credentials,omitempty"`
	Realm             string `json:"realm,omitempty"`
}

// These are limits of texts.
const (
	maxHeader = 128
	maxRealm  = 256
)

// Kind describes the resources.
var Kind = model.Describe(Resource{}, model.Kind{
	Name: "mesh_token_auth", Path: "meshtokenauths", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "MeshTokenAuth", Singular: "Mesh Token Auth", Plural: "Mesh Token Auths",
		Policy: true, Inbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// SelectedSources implements model.Selecting: the policy applies to everybody.
func (r *Resource) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting.
func (r *Resource) SelectedDestinations() []map[string]string {
	if r.Spec == nil || r.Spec.TargetRef == nil {
		return nil
	}
	switch t := r.Spec.TargetRef; t.Kind {
	case targetService:
		return []map[string]string{{mesh.TagService: t.Name}}
	case targetSubset:
		return []map[string]string{t.Tags}
	default:
		return []map[string]string{{}}
	}
}

// demanded returns the only requirement of a valid policy.
func (r *Resource) demanded() *Default { return r.Spec.From[0].Default }

func validate(spec any) []fault.Violation {
	s := spec.(*Resource).Spec
	var v policy.Violations
	if s == nil {
		v.Add("spec", "must be defined")
		return v
	}
	target(&v, s.TargetRef)
	if len(s.From) != 1 {
		v.Add("spec.from", "must have exactly one element")
		return v
	}
	from := s.From[0]
	if from.TargetRef == nil || from.TargetRef.Kind != targetMesh {
		v.Add("spec.from[0].targetRef.kind", "value is not supported. Available values: Mesh")
	}
	demand(&v, "spec.from[0].default", from.Default)
	return v
}

func target(v *policy.Violations, t *TargetRef) {
	const path = "spec.targetRef"
	if t == nil {
		v.Add(path, "must be defined")
		return
	}
	switch t.Kind {
	case targetMesh:
		if t.Name != "" || len(t.Tags) > 0 {
			v.Add(path, "must not have name or tags with kind Mesh")
		}
	case targetSubset:
		if t.Name != "" {
			v.Add(path+".name", "must not be set with kind MeshSubset")
		}
		if len(t.Tags) == 0 {
			v.Add(path+".tags", "must be set with kind MeshSubset")
		}
		*v = append(*v, mesh.ValidateTags(path+".tags", t.Tags)...)
	case targetService:
		if t.Name == "" {
			v.Add(path+".name", "must be set with kind MeshService")
		}
		if len(t.Tags) > 0 {
			v.Add(path+".tags", "must not be set with kind MeshService")
		}
	default:
		v.Add(path+".kind", "value is not supported. Available values: Mesh, MeshSubset, MeshService")
	}
}

func demand(v *policy.Violations, path string, d *Default) {
	if d == nil || (d.Plugin == nil) == (d.Config == nil) {
		v.Add(path, `must have exactly one of "plugin" or "config"`)
		return
	}
	if p := d.Plugin; p != nil {
		if p.ControlPlane != "" && p.ControlPlane != model.DefaultControlPlane {
			v.Add(path+".plugin.controlPlane", "does not exist")
		}
		if !model.IsUUID(p.ID) {
			v.Add(path+".plugin.id", "must be the id of a plugin instance")
		}
		return
	}
	c := d.Config
	if !c.GlobalCredentials {
		v.Add(path+".config.global_credentials", "must be true: there is no service that a token could be bound to")
	}
	if len(c.AuthHeaderName) > maxHeader || strings.ContainsFunc(c.AuthHeaderName, notInHeaderName) {
		v.Add(path+".config.auth_header_name", "must be a header name of at most 128 characters")
	} else if text := gateway.CredentialHeader(c.AuthHeaderName); text != "" {
		v.Add(path+".config.auth_header_name", "%s", text)
	}
	if len(c.Realm) > maxRealm || strings.ContainsFunc(c.Realm, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		v.Add(path+".config.realm", "must be at most 256 printable ASCII characters without quotes and backslashes")
	}
}

// notInHeaderName implements RFC 9110 section 5.6.2, for either case.
func notInHeaderName(r rune) bool {
	return r > '~' || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}
