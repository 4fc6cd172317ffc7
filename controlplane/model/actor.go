package model

import (
	"context"
	"slices"
	"strings"
)

// ActorKind says what an [Actor] is.
type ActorKind string

// Kinds of actors.
const (
	// ActorUser is somebody who was identified, or is anonymous.
	ActorUser ActorKind = "user"
	// ActorToken is whoever shows a token that names nobody.
	ActorToken ActorKind = "token"
	// ActorNode is a proxy, under its node id.
	ActorNode ActorKind = "node"
	// ActorSystem is a part of the control plane, under the name of the part.
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

// Actor is who asks for something. Every write has one.
type Actor struct {
	Kind   ActorKind
	Name   string
	Groups []string
}

// Administrator is the user who may do everything.
func Administrator() Actor {
	return Actor{ActorUser, UserAdministrator, []string{GroupAdministrator, GroupAuthenticated}}
}

// Anonymous is the user who has not said who it is.
func Anonymous() Actor { return Actor{ActorUser, UserAnonymous, []string{GroupAnonymous}} }

// User is an identified user with the groups it was given.
func User(name string, groups ...string) Actor {
	return Actor{ActorUser, name, append(slices.Clone(groups), GroupAuthenticated)}
}

// System is a part of the control plane that acts by itself.
func System(part string) Actor { return Actor{Kind: ActorSystem, Name: part} }

// Node is a proxy.
func Node(id string) Actor { return Actor{Kind: ActorNode, Name: id} }

// Administrates reports whether the actor may do what only administrators may.
// Nodes and parts of the control plane never do, whatever they are called.
func (a Actor) Administrates() bool {
	switch a.Kind {
	case ActorUser:
		return a.Name == UserAdministrator || slices.Contains(a.Groups, GroupAdministrator)
	case ActorToken:
		return slices.Contains(a.Groups, GroupAdministrator)
	}
	return false
}

// Known reports whether the actor says who it is.
func (a Actor) Known() bool { return a.Kind != "" && a.Name != "" }

// String is the form in which errors show an actor.
func (a Actor) String() string { return a.Name + "/" + strings.Join(a.Groups, ",") }

// ID is the form in which logs and records show an actor: kind, colon, name.
func (a Actor) ID() string { return string(a.Kind) + ":" + a.Name }

// Origin says by which way a write came. It is empty for what the control plane does
// by itself.
type Origin string

// Origins.
const (
	// OriginAPI is a request to an API.
	OriginAPI Origin = "api"
	// OriginFile is a declarative file.
	OriginFile Origin = "file"
	// OriginProxy is a proxy that registers itself, is gone, or asks on behalf of a
	// client.
	OriginProxy Origin = "proxy"
)

type originKey struct{}

// WithOrigin returns a context whose writes come by a way.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns by which way the writes of a context come. Where nothing has set
// it, the actor tells: nodes are proxies, and who is no part of the control plane
// uses an API.
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

// WithActor returns a context whose requests and writes are those of an actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context; ok is false where nothing has set one.
func ActorOf(ctx context.Context) (a Actor, ok bool) {
	a, ok = ctx.Value(actorKey{}).(Actor)
	return a, ok && a.Known()
}
