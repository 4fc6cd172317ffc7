package access

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestRolesOfCredentials: a credential gives its holder what it says, with roles in the settings and
// without, and nothing beside it.
func TestRolesOfCredentials(t *testing.T) {
	for name, rules := range map[string]*Rules{
		"no rules": nil, "identified": New(Options{Identified: true}), "roles": New(Options{Roles: []Role{{Role: "viewer", All: true, Users: []string{"x"}}}}),
	} {
		for _, test := range []struct {
			group string
			right Right
			in    Scope
			want  bool
		}{
			{RoleGroup("admin", ""), Administrator, whole, true},
			{RoleGroup("admin", ""), Write, inM, true},
			{RoleGroup("viewer", ""), Read, inPlane, true},
			{RoleGroup("viewer", ""), Write, inPlane, false},
			{RoleGroup("viewer", ""), Write, inM, false},
			{RoleGroup("admin", "default"), Administrator, inPlane, true},
			{RoleGroup("admin", "default"), Administrator, Scope{ControlPlane: "other"}, false},
			{RoleGroup("admin", "default"), Read, whole, false},
			{RoleGroup("admin", "default"), Read, inM, false},
			{RoleGroup("admin", "a:b"), Read, Scope{ControlPlane: "a:b"}, true},
			{RoleGroup("owner", ""), Read, whole, false},
			{RoleGroup("", ""), Read, whole, false},
		} {
			who := model.User("token", test.group)
			if v := rules.Decide(who, test.right, test.in); v.Allowed != test.want {
				t.Errorf("%s: %s has %q in %s: %+v", name, test.group, test.right, test.in, v)
			}
		}
	}
	var none *Rules
	if !none.Exceeds(model.User("x", RoleGroup("admin", "default")), model.User("y", RoleGroup("viewer", ""))) {
		t.Error("an admin of a control plane does not exceed a viewer")
	}
	if none.Exceeds(model.User("x", RoleGroup("viewer", "default")), model.User("y", RoleGroup("viewer", ""))) {
		t.Error("a viewer of one control plane exceeds one of all")
	}
}
