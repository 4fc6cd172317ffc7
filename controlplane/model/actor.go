package model

import (
	"context"
	"slices"
	"strings"
)

// ActorKind is the kind of an [Actor].
type ActorKind string

// The kinds of actors.
const (
	// ActorUser is a user who was identified, or who is anonymous.
	ActorUser ActorKind = "user"
	// ActorToken is a caller with a token that names nobody.
	ActorToken ActorKind = "token"
	// ActorNode is a proxy, under its node id.
	ActorNode ActorKind = "node"
	// ActorSystem is a part of the control plane. The name of the actor is that of the part.
	ActorSystem ActorKind = "system"
)

// Users and groups that exist without being declared.
const (
	UserAnonymous      = "mesh-system:anonymous"
	UserAdministrator  = "mesh-system:admin"
	GroupAnonymous     = "mesh-system:unauthenticated"
	GroupAuthenticated = "mesh-system:authenticated"
	GroupAdministrator = "mesh-system:admin"
)

// Prefixes of names that only this control plane gives: of users and groups of the system, and of users who
// are the holders of personal access tokens, which people or programs may have.
const (
	PrefixSystem  = "mesh-system:"
	PrefixPerson  = "token:"
	PrefixProgram = "system:"
)

// IsHolder reports whether a user of this name is the holder of a personal access token. Nobody else may
// have such a name: what it does would be recorded as done by the holder. Names of tokens have no colon,
// so that service accounts of Kubernetes ("system:serviceaccount:NAMESPACE:NAME") are nobody's.
func IsHolder(user string) bool {
	program, is := strings.CutPrefix(user, PrefixProgram)
	return strings.HasPrefix(user, PrefixPerson) || is && !strings.Contains(program, ":")
}

// Actor is the author of a request. Every write has one.
type Actor struct {
	Kind   ActorKind
	Name   string
	Groups []string
	// Own are the roles that the actor's credential says itself, beside those that settings give.
	// Groups never say them: whoever may name groups in a credential could take any role.
	Own []OwnRole
}

// OwnRole is a role that a credential says: in a control plane, or everywhere if that is empty.
type OwnRole struct{ Role, ControlPlane string }

// Administrator returns the user who may do everything.
func Administrator() Actor {
	return Actor{Kind: ActorUser, Name: UserAdministrator, Groups: []string{GroupAdministrator, GroupAuthenticated}}
}

// Anonymous returns the user who has not identified itself.
func Anonymous() Actor {
	return Actor{Kind: ActorUser, Name: UserAnonymous, Groups: []string{GroupAnonymous}}
}

// User returns an identified user with its groups.
func User(name string, groups ...string) Actor {
	return Actor{Kind: ActorUser, Name: name, Groups: append(slices.Clone(groups), GroupAuthenticated)}
}

// Holding returns the actor with roles that its credential says.
func (a Actor) Holding(own ...OwnRole) Actor {
	a.Own = own
	return a
}

// System returns a part of the control plane that acts by itself.
func System(part string) Actor { return Actor{Kind: ActorSystem, Name: part} }

// Node returns a proxy as an actor.
func Node(id string) Actor { return Actor{Kind: ActorNode, Name: id} }

// Administrates reports whether the actor may do what only administrators may. Nodes and
// parts of the control plane never may, whatever their names are.
func (a Actor) Administrates() bool {
	switch a.Kind {
	case ActorUser:
		return a.Name == UserAdministrator || slices.Contains(a.Groups, GroupAdministrator)
	case ActorToken:
		return slices.Contains(a.Groups, GroupAdministrator)
	}
	return false
}

// Known reports whether the actor has a kind and a name.
func (a Actor) Known() bool { return a.Kind != "" && a.Name != "" }

// String returns the form in which errors show an actor.
func (a Actor) String() string { return a.Name + "/" + strings.Join(a.Groups, ",") }

// ID returns the form in which logs and records show an actor: kind, colon, name.
func (a Actor) ID() string { return string(a.Kind) + ":" + a.Name }

// Origin says how a write came in. It is empty for writes of the control plane itself.
type Origin string

// The origins of writes.
const (
	// OriginAPI is a request to an API.
	OriginAPI Origin = "api"
	// OriginFile is a declarative file.
	OriginFile Origin = "file"
	// OriginProxy is a proxy that registers itself, leaves, or asks on behalf of a client.
	OriginProxy Origin = "proxy"
	// OriginStranger is somebody who has proved nothing. What strangers may do is not recorded: their
	// records would push out those of administrators.
	OriginStranger Origin = "stranger"
)

type originKey struct{}

// WithOrigin returns a context whose writes have an origin.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns the origin of the writes of a context. If none was set, the actor
// determines it: nodes are proxies, and all actors except parts of the control plane use an
// API.
func OriginOf(ctx context.Context) Origin {
	if o, ok := ctx.Value(originKey{}).(Origin); ok {
		return o
	}
	a, _ := ActorOf(ctx)
	switch a.Kind {
	case ActorNode:
		return OriginProxy
	case ActorUser, ActorToken:
		return OriginAPI
	case ActorSystem:
	}
	return ""
}

type actorKey struct{}

// WithActor returns a context whose requests and writes have an actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context; ok is false if none was set.
func ActorOf(ctx context.Context) (a Actor, ok bool) {
	a, ok = ctx.Value(actorKey{}).(Actor)
	return a, ok && a.Known()
}
