package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// level is what a role gives. Each includes those before it.
type level int

const (
	none level = iota
	viewer
	editor
	admin
)

// levels are the names of roles.
var levels = map[string]level{"viewer": viewer, "editor": editor, "admin": admin}

// Role gives users and groups what viewers, editors or admins of scopes may do.
type Role struct {
	// Role is viewer, editor or admin.
	Role string `json:"role"`
	// Meshes and ControlPlanes are the scopes. All means all scopes, and what belongs to
	// none.
	Meshes        []string `json:"meshes,omitempty"`
	ControlPlanes []string `json:"controlPlanes,omitempty"`
	All           bool     `json:"all,omitempty"`
	Users         []string `json:"users,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	// own says that a credential says the role. Whoever showed it has the role.
	own bool
}

// MaxRoles bounds the roles, because each decision looks at all of them.
const MaxRoles = 1000

// CheckRoles returns what is wrong with roles. Paths begin with an index.
func CheckRoles(roles []Role) (vs []fault.Violation) {
	if len(roles) > MaxRoles {
		return []fault.Violation{{Message: fmt.Sprintf("must be at most %d roles", MaxRoles)}}
	}
	for i, r := range roles {
		bad := func(field, text string) {
			vs = append(vs, fault.Violation{Path: fmt.Sprintf("[%d]%s", i, field), Message: text})
		}
		if levels[r.Role] == none {
			bad(".role", "must be viewer, editor or admin")
		}
		switch scoped := len(r.Meshes)+len(r.ControlPlanes) > 0; {
		case r.All && scoped:
			bad(".all", "cannot be set beside meshes or controlPlanes")
		case !r.All && !scoped:
			bad("", "needs meshes, controlPlanes or all: true")
		}
		if len(r.Users)+len(r.Groups) == 0 {
			bad("", "needs users or groups: without any, nobody has this role")
		}
		for field, names := range map[string][]string{".meshes": r.Meshes, ".controlPlanes": r.ControlPlanes, ".users": r.Users, ".groups": r.Groups} {
			if slices.Contains(names, "") {
				bad(field, "must not contain an empty name")
			}
		}
		if slices.Contains(r.Users, model.UserAnonymous) || slices.Contains(r.Groups, model.GroupAnonymous) {
			bad("", "cannot be given to callers without an identity")
		}
	}
	slices.SortStableFunc(vs, func(a, b fault.Violation) int { return strings.Compare(a.Path, b.Path) })
	return vs
}

// holds reports whether an actor has the role.
func (r *Role) holds(who model.Actor) bool { return r.own || named(who, r.Users, r.Groups) }

// covers reports whether the role is for a scope.
func (r *Role) covers(s Scope) bool {
	switch {
	case r.All:
		return true
	case s.Mesh != "":
		return slices.Contains(r.Meshes, s.Mesh)
	case s.ControlPlane != "":
		return slices.Contains(r.ControlPlanes, s.ControlPlane)
	}
	return s.Somewhere && len(r.Meshes) > 0
}

// named reports whether an actor is one of the users or belongs to one of the groups.
func named(who model.Actor, users, groups []string) bool {
	return slices.Contains(users, who.Name) || slices.ContainsFunc(who.Groups, func(g string) bool { return slices.Contains(groups, g) })
}
