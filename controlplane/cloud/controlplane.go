package cloud

import (
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// The types of control planes. A hybrid one is the standard; it has an older and a newer name.
const (
	TypeGroup  = "CLUSTER_TYPE_CONTROL_PLANE_GROUP"
	TypeHybrid = "CLUSTER_TYPE_HYBRID"
	TypePlane  = "CLUSTER_TYPE_CONTROL_PLANE"
)

// DefaultID is the id of the control plane that exists from the start. It is the same everywhere,
// so that nobody has to look up what its scope is.
const DefaultID = "00000000-0000-4000-8000-000000000000"

// ControlPlane is a control plane of gateways: a set of entities, or a group of such sets.
// Source: requirement "Control plane".
type ControlPlane struct {
	Name        string `json:"name" jsonschema_extras:"x-unique=true,x-check=control-plane-name,x-chars=2..256"`
	Description string `json:"description,omitempty" jsonschema_extras:"x-chars=0..2048"`
	// ClusterType is as its creator has spelled it.
	ClusterType  string            `json:"cluster_type" jsonschema:"enum=CLUSTER_TYPE_HYBRID,enum=CLUSTER_TYPE_CONTROL_PLANE,enum=CLUSTER_TYPE_CONTROL_PLANE_GROUP,default=CLUSTER_TYPE_HYBRID"`
	AuthType     string            `json:"auth_type" jsonschema:"enum=pinned_client_certs,enum=pki_client_certs,default=pinned_client_certs"`
	CloudGateway bool              `json:"cloud_gateway" jsonschema:"default=false"`
	ProxyURLs    []ProxyURL        `json:"proxy_urls,omitempty" jsonschema:"maxItems=5"`
	Labels       map[string]string `json:"labels,omitempty" jsonschema_extras:"x-check=labels"`
	// Ending says that its deletion has begun. It counts as one that does not exist: nothing joins it,
	// it joins nothing, and nothing is created in it.
	Ending bool `json:"ending,omitempty" jsonschema_extras:"x-hidden=true"`
}

// ProxyURL is an address at which gateways of a control plane serve.
type ProxyURL struct {
	Host     string `json:"host" jsonschema_extras:"x-chars=1..120"`
	Port     int    `json:"port" jsonschema:"minimum=1,maximum=65535"`
	Protocol string `json:"protocol" jsonschema_extras:"x-chars=1..32"`
}

// ControlPlanes is the kind of control planes. The name of a resource is a UUID.
var ControlPlanes = rules.Describe(ControlPlane{}, model.Kind{
	Name: "control_plane", Path: "control-planes", Scoping: model.Global, Class: model.Config,
	Schema: &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

// SpellingsOfType lists all spellings of a type of control planes, the given one among them.
func SpellingsOfType(text string) []string {
	if text == TypeHybrid || text == TypePlane {
		return []string{TypeHybrid, TypePlane}
	}
	return []string{text}
}

// IsGroup reports whether it consists of others.
func (c *ControlPlane) IsGroup() bool { return c.ClusterType == TypeGroup }

// ScopeOf is the scope of the entities of a control plane: its id, unless it is the first one.
func ScopeOf(id string) string {
	if id == DefaultID {
		return model.DefaultControlPlane
	}
	return id
}

// IDOf is the id of the control plane of a scope.
func IDOf(scope string) string {
	if scope == model.DefaultControlPlane {
		return DefaultID
	}
	return scope
}

// Group lists what a group of control planes consists of. It has the name of the group, and is made
// with it: so whether a control plane is a group can be read off the existence of a row.
type Group struct {
	ControlPlane string `json:"control_plane" jsonschema_extras:"x-refers-to=control_plane,x-on-delete=cascade"`
	// Members are ids. A control plane is not deleted while it is a member.
	Members []string `json:"members" jsonschema_extras:"x-holds=control_plane,x-listed=true"`
}

// IndexMembers lists groups by a member.
const IndexMembers = "members"

// Groups is the kind of the members of groups.
var Groups = model.Describe(Group{}, model.Kind{
	Name: "control_plane_group", Path: "control-plane-groups", Scoping: model.Global, Class: model.Config, ReadOnly: true,
})

// The limits of groups.
const (
	MaxMembers = 256
	MaxGroups  = 5
	MaxAtOnce  = 50
)

// planeNameText checks the name of a control plane. Gateways name theirs by its id or its name, and whoever
// takes the id of a deleted one as a name would get its gateways.
func planeNameText(v any) string {
	if model.IsUUID(strings.ToLower(v.(string))) {
		return "must not be a UUID: that is the form of ids"
	}
	return nameText(v)
}
