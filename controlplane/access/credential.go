package access

import "github.com/meshgate/meshgate/controlplane/model"

// ownRoles are the roles that an actor's credential says.
func ownRoles(who model.Actor) (list []Role) {
	for _, own := range who.Own {
		r := Role{Role: own.Role, All: own.ControlPlane == "", own: true}
		if own.ControlPlane != "" {
			r.ControlPlanes = []string{own.ControlPlane}
		}
		list = append(list, r)
	}
	return list
}
