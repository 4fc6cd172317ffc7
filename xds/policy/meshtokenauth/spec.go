// Package meshtokenauth is the policy that requires bearer tokens on the HTTP inbounds of
// services, or on the HTTP listeners of builtin gateways: tokens of an oauth2 plugin instance of a control plane, or any token of its
// consumers. So one set of consumers and tokens protects both routes of a gateway and services
// of a mesh.
package meshtokenauth

import (
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Resource is the policy as users write it, with everything below spec.
type Resource struct {
	model.Labelled
	Spec *Spec `json:"spec,omitempty"`
}

// Spec says where tokens are required, of whom, and which.
type Spec struct {
	TargetRef *target.Ref            `json:"targetRef,omitempty"`
	From      []target.Item[Default] `json:"from,omitempty"`
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

// These are limits of texts, and of the callers that one policy tells apart.
const (
	maxHeader = 128
	maxRealm  = 256
	maxFrom   = 64
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

// Target implements target.Targeted.
func (r *Resource) Target() *target.Ref {
	if r.Spec == nil {
		return nil
	}
	return r.Spec.TargetRef
}

// SelectedTargets implements model.Targeting.
func (r *Resource) SelectedTargets() []map[string]string { return target.Places(r) }

// AtGateways implements target.AtGateways.
func (r *Resource) AtGateways() {}

// SelectedSources implements model.Selecting: the callers.
func (r *Resource) SelectedSources() []map[string]string { return target.Selected(items(r)) }

// SelectedDestinations implements model.Selecting: the policy calls nobody.
func (r *Resource) SelectedDestinations() []map[string]string { return nil }

func items(spec any) []target.Item[Default] {
	if r, ok := spec.(*Resource); ok && r.Spec != nil {
		return r.Spec.From
	}
	return nil
}

func validate(spec any) []fault.Violation {
	s := spec.(*Resource).Spec
	var v policy.Violations
	if s == nil {
		v.Add("spec", "must be defined")
		return v
	}
	target.Check(&v, "spec.targetRef", s.TargetRef, append(target.Kinds(), target.Gateway)...)
	callers := target.Kinds()
	if s.TargetRef != nil && s.TargetRef.Kind == target.Gateway {
		callers = []string{target.Mesh} // clients of gateways prove nothing by which they could be told apart
	}
	switch {
	case len(s.From) == 0:
		v.Add("spec.from", "must have at least one element")
	case len(s.From) > maxFrom:
		v.Add("spec.from", "must have at most %d elements", maxFrom)
	}
	for i, from := range s.From {
		path := fmt.Sprintf("spec.from[%d]", i)
		target.CheckItem(&v, path+".targetRef", from.TargetRef, callers...)
		checkDemand(&v, path+".default", from.Default)
	}
	return v
}

func checkDemand(v *policy.Violations, path string, d *Default) {
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
