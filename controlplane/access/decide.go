package access

import (
	"fmt"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Grant gives a right to users and groups.
type Grant struct{ Users, Groups []string }

// Static gives rights to others than administrators, in every scope.
type Static map[Right]Grant

// Options of decisions.
type Options struct {
	Static Static
	Roles  []Role
	// Identified demands an identity for everything that is not open. Roles demand it, too.
	Identified bool
	// RolesOnly gives callers without a role nothing, even if there are no roles.
	RolesOnly bool
}

// Rules decide. The nil value decides as rules without any options do. Rules never change.
type Rules struct{ o Options }

// New returns rules. The roles have been checked with [CheckRoles].
func New(o Options) *Rules { return &Rules{o} }

// Verdict is a decision.
type Verdict struct {
	Allowed bool
	// Unidentified says of a refusal that an identity could change it.
	Unidentified bool
	// Reason says why, for logs and tests. It holds nothing secret.
	Reason string
}

// IdentityNeeded reports whether callers without an identity have nothing.
func (r *Rules) IdentityNeeded() bool {
	return r != nil && (r.o.Identified || r.o.RolesOnly || len(r.o.Roles) > 0)
}

// Decide says whether an actor has a right in a scope. What is unknown is refused.
func (r *Rules) Decide(who model.Actor, right Right, in Scope) Verdict {
	if r == nil {
		r = &Rules{}
	}
	roles := r.o.Roles
	if own := ownRoles(who); len(own) > 0 {
		roles = append(own, roles...)
	}
	switch {
	case right == Open:
		return Verdict{Allowed: true, Reason: "everybody may"}
	case who.Administrates():
		return Verdict{Allowed: true, Reason: "administrators may do everything"}
	case who.Kind != model.ActorUser || !who.Known():
		return Verdict{Reason: "the caller is no user"}
	case r.IdentityNeeded() && who.Name == model.UserAnonymous:
		return Verdict{Unidentified: true, Reason: "the caller has no identity"}
	case r.granted(who, right):
		return Verdict{Allowed: true, Reason: "the settings give the right to the caller"}
	case len(roles) > 0 || r.o.RolesOnly:
		return byRole(roles, who, right, in)
	}
	return withoutRoles(right, in)
}

// granted reports whether settings give a right to an actor.
func (r *Rules) granted(who model.Actor, right Right) bool {
	g, ok := r.o.Static[right]
	return ok && named(who, g.Users, g.Groups)
}

// withoutRoles decides about callers who are not administrators. Gateways have no rights for
// them: their API was always for administrators only.
func withoutRoles(right Right, in Scope) Verdict {
	switch right {
	case Open, Known, Read, Write, Own:
		if in.ControlPlane == "" {
			return Verdict{Allowed: true, Reason: "there are no roles, so everybody may"}
		}
	case Administrator, AdminResources, DataplaneTokens, UserTokens, ZoneTokens, ConfigDump, Stats, Clusters, Metadata:
	}
	return Verdict{Reason: "only administrators may"}
}

// byRole decides by the roles of an actor with an identity.
func byRole(roles []Role, who model.Actor, right Right, in Scope) Verdict {
	need := right.needs()
	if need == none {
		return Verdict{Allowed: right == Known, Reason: "everybody with an identity may"}
	}
	for i := range roles {
		role := &roles[i]
		if levels[role.Role] >= need && role.covers(in) && role.holds(who) {
			return Verdict{Allowed: true, Reason: fmt.Sprintf("role %s of %s", role.Role, in)}
		}
	}
	return Verdict{Reason: fmt.Sprintf("the caller has no role that gives %s in %s", right, in)}
}

// Exceeds reports whether an actor has any right, anywhere, that another one lacks.
func (r *Rules) Exceeds(who, than model.Actor) bool {
	scopes := []Scope{{}}
	roles := ownRoles(who)
	if r != nil {
		roles = append(roles, r.o.Roles...)
	}
	for i := range roles {
		role := &roles[i]
		if !role.holds(who) {
			continue
		}
		for _, name := range role.Meshes {
			scopes = append(scopes, Scope{Mesh: name})
		}
		for _, name := range role.ControlPlanes {
			scopes = append(scopes, Scope{ControlPlane: name})
		}
	}
	for _, in := range scopes {
		for _, right := range Rights {
			if r.Decide(who, right, in).Allowed && !r.Decide(than, right, in).Allowed {
				return true
			}
		}
	}
	return false
}
