package access

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// groupRole begins the groups that a credential gives its holder beside those of settings. No other
// issuer can name them: they are of the system.
const groupRole = "mesh-system:role:"

// RoleGroup returns the group that has a role in a control plane, or in all scopes if it is empty. It
// is for credentials that say themselves what they are good for.
func RoleGroup(role, controlPlane string) string { return groupRole + role + ":" + controlPlane }

// ownRoles are the roles that an actor's credential says.
func ownRoles(who model.Actor) (list []Role) {
	for _, group := range who.Groups {
		rest, ok := strings.CutPrefix(group, groupRole)
		if !ok {
			continue
		}
		role, plane, _ := strings.Cut(rest, ":")
		r := Role{Role: role, All: plane == "", Groups: []string{group}}
		if plane != "" {
			r.ControlPlanes = []string{plane}
		}
		list = append(list, r)
	}
	return list
}
