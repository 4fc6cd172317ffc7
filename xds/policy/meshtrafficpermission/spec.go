// Package meshtrafficpermission is the policy that says who may call the proxies of its target.
// All policies whose target matches an inbound count there: of the items about a caller the
// strongest decides, and who is in no item may not call. Where one is chosen, no
// TrafficPermission counts.
//
// What package trafficpermission says of the workload's own port is true of this policy, too.
package meshtrafficpermission

import (
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Resource is the policy as users write it, with everything below spec.
type Resource struct {
	model.Labelled
	Spec *Spec `json:"spec,omitempty"`
}

// Spec says to whom calls are permitted, and from whom.
type Spec struct {
	TargetRef *target.Ref         `json:"targetRef,omitempty"`
	From      []target.Item[Conf] `json:"from,omitempty"`
}

// Conf is what is decided about callers.
type Conf struct {
	Action Action `json:"action,omitempty"`
}

// Action is a decision. It may also be written in capitals.
type Action string

// These are the actions.
const (
	Allow Action = "Allow"
	Deny  Action = "Deny"
	// AllowWithShadowDeny lets callers pass, and counts and logs them as if it did not.
	AllowWithShadowDeny Action = "AllowWithShadowDeny"
)

// actions maps what users may write to the actions.
var actions = map[Action]Action{
	Allow: Allow, "ALLOW": Allow, Deny: Deny, "DENY": Deny,
	AllowWithShadowDeny: AllowWithShadowDeny, "ALLOW_WITH_SHADOW_DENY": AllowWithShadowDeny,
}

// maxFrom is the maximum number of items of one policy.
const maxFrom = 64

// Kind describes the resources.
var Kind = model.Describe(Resource{}, model.Kind{
	Name: "mesh_traffic_permission", Path: "meshtrafficpermissions", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "MeshTrafficPermission", Singular: "Mesh Traffic Permission", Plural: "Mesh Traffic Permissions",
		Policy: true, Inbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits inbounds. It has an effect only where peers are authenticated.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByInbound, Egress: true, Order: target.Order, Refuses: policy.RefusesAuthenticated,
	Edits:   policy.Edits{Inbound: inbound, InboundRoutes: inboundRoutes},
	Facts:   callers.FactsOf(func(any) bool { return true }),
	Explain: explain, Rules: rules, Closed: closed, Admits: admits,
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
func (r *Resource) SelectedSources() []map[string]string { return target.Selected(items(r)) }

// SelectedDestinations implements model.Selecting: the policy is not about called services.
func (r *Resource) SelectedDestinations() []map[string]string { return nil }

func items(spec any) []target.Item[Conf] {
	if r, ok := spec.(*Resource); ok && r.Spec != nil {
		return r.Spec.From
	}
	return nil
}

// closed says who is refused if no permission admits anybody.
func closed(m *mesh.Mesh) string {
	switch a := m.Authority(); {
	case a == nil:
		return ""
	case a.Mode == mesh.ModePermissive:
		return "every caller is refused that comes with a certificate of the mesh"
	}
	return "everybody is refused"
}

func validate(spec any) []fault.Violation {
	s := spec.(*Resource).Spec
	var v policy.Violations
	if s == nil {
		v.Add("spec", "must be defined")
		return v
	}
	target.Check(&v, "spec.targetRef", s.TargetRef, target.Kinds()...)
	switch {
	case len(s.From) == 0:
		v.Add("spec.from", "must have at least one element")
	case len(s.From) > maxFrom:
		v.Add("spec.from", "must have at most %d elements", maxFrom)
	}
	for i, item := range s.From {
		path := fmt.Sprintf("spec.from[%d]", i)
		target.CheckItem(&v, path+".targetRef", item.TargetRef, target.Kinds()...)
		if item.Default == nil {
			v.Add(path+".default", "must be defined")
		} else if _, known := actions[item.Default.Action]; !known {
			v.Add(path+".default.action", "value is not supported. Available values: %s", strings.Join([]string{string(Allow), string(Deny), string(AllowWithShadowDeny)}, ", "))
		}
	}
	return v
}
