package access

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestGroupsSayNoRole: no group gives a role by its name. Whoever issues tokens of users chooses
// their groups.
func TestGroupsSayNoRole(t *testing.T) {
	for name, rules := range map[string]*Rules{"no rules": nil, "roles only": New(Options{RolesOnly: true})} {
		for _, group := range []string{"mesh-system:role:admin:", "mesh-system:role:editor:default", "admin", "editor"} {
			for _, right := range []Right{Read, Write, Administrator} {
				if v := rules.Decide(model.User("bob", group), right, inPlane); v.Allowed {
					t.Errorf("%s: group %s gives %q: %+v", name, group, right, v)
				}
			}
		}
	}
}

// TestRolesOfCredentials: a credential gives its holder what it says, with roles in the settings and
// without, and nothing beside it.
func TestRolesOfCredentials(t *testing.T) {
	for name, rules := range map[string]*Rules{
		"no rules": nil, "identified": New(Options{Identified: true}), "roles": New(Options{Roles: []Role{{Role: "viewer", All: true, Users: []string{"x"}}}}),
	} {
		for _, test := range []struct {
			own   model.OwnRole
			right Right
			in    Scope
			want  bool
		}{
			{model.OwnRole{Role: "admin", ControlPlane: ""}, Administrator, whole, true},
			{model.OwnRole{Role: "admin", ControlPlane: ""}, Write, inM, true},
			{model.OwnRole{Role: "viewer", ControlPlane: ""}, Read, inPlane, true},
			{model.OwnRole{Role: "viewer", ControlPlane: ""}, Write, inPlane, false},
			{model.OwnRole{Role: "viewer", ControlPlane: ""}, Write, inM, false},
			{model.OwnRole{Role: "admin", ControlPlane: "default"}, Administrator, inPlane, true},
			{model.OwnRole{Role: "admin", ControlPlane: "default"}, Administrator, Scope{ControlPlane: "other"}, false},
			{model.OwnRole{Role: "admin", ControlPlane: "default"}, Read, whole, false},
			{model.OwnRole{Role: "admin", ControlPlane: "default"}, Read, inM, false},
			{model.OwnRole{Role: "admin", ControlPlane: "a:b"}, Read, Scope{ControlPlane: "a:b"}, true},
			{model.OwnRole{Role: "owner", ControlPlane: ""}, Read, whole, false},
			{model.OwnRole{Role: "", ControlPlane: ""}, Read, whole, false},
		} {
			who := model.User("token").Holding(test.own)
			if v := rules.Decide(who, test.right, test.in); v.Allowed != test.want {
				t.Errorf("%s: %v has %q in %s: %+v", name, test.own, test.right, test.in, v)
			}
		}
	}
	var none *Rules
	if !none.Exceeds(model.User("x").Holding(model.OwnRole{Role: "admin", ControlPlane: "default"}), model.User("y").Holding(model.OwnRole{Role: "viewer", ControlPlane: ""})) {
		t.Error("an admin of a control plane does not exceed a viewer")
	}
	if none.Exceeds(model.User("x").Holding(model.OwnRole{Role: "viewer", ControlPlane: "default"}), model.User("y").Holding(model.OwnRole{Role: "viewer", ControlPlane: ""})) {
		t.Error("a viewer of one control plane exceeds one of all")
	}
}
