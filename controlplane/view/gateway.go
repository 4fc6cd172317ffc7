package view

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
)

// Entry is one resource in a view. It is immutable; a changed resource is a new
// Entry, so that pointers tell whether anything changed.
type Entry[T any] struct {
	ID string
	// Scope is the control plane that it is of: in a group one of the members, else that of
	// the view. What it names by id or name is of that one too, see [Gateway.Of].
	Scope   string
	Created time.Time
	// Version counts the writes of the resource.
	Version uint64
	// LeftOut says that another member had its id first. Such an entry is shown only where
	// its absence would open something: what it stands for is refused.
	LeftOut bool
	Spec    *T
}

func (e *Entry[T]) home() string { return e.Scope }

func (e *Entry[T]) leaveOut() { e.LeftOut = true }

type (
	// Service is a service in a view.
	Service = Entry[gateway.Service]
	// Route is a route in a view.
	Route = Entry[gateway.Route]
	// Consumer is a consumer that a plugin names as its anonymous one.
	Consumer = Entry[gateway.Consumer]
)

// Plugin is a plugin instance, with what the view decodes of its configuration.
type Plugin struct {
	Entry[gateway.Plugin]
	// Anonymous is config.anonymous: an id or username, or empty.
	Anonymous string
}

// Gateway is the state of one control plane at one store revision. It is
// immutable and shared by all readers.
type Gateway struct {
	scope    string
	members  scopes.Members
	revision uint64
	services table[*Service]
	routes   table[*Route]
	plugins  table[*Plugin]
	// targets finds plugins by where they are attached. This and what follows is by member:
	// see [within].
	targets table[*Plugin]
	// bound finds the plugins that are bound to consumers by where else they are
	// attached.
	bound table[*Bound]
	// anonymous maps each configured config.anonymous to the consumer that
	// answers to it; nil where nobody does.
	anonymous table[*Consumer]
	// users counts the plugins that name a value in anonymous.
	users table[int]
	balancing
	identities
	clashing
}

// Scope is the control plane's name.
func (g *Gateway) Scope() string { return g.scope }

// Named is a scope where members of a group are told apart, and empty in the view of a
// control plane that consists of itself.
func (g *Gateway) Named(scope string) string {
	if !g.members.IsUnion() {
		return ""
	}
	return scope
}

// Revision is the store revision that this state shows, complete.
func (g *Gateway) Revision() uint64 { return g.revision }

// Service returns a service by id.
func (g *Gateway) Service(id string) (*Service, bool) { return g.services.get(id) }

// Route returns a route by id.
func (g *Gateway) Route(id string) (*Route, bool) { return g.routes.get(id) }

// Plugin returns a plugin instance by id.
func (g *Gateway) Plugin(id string) (*Plugin, bool) { return g.plugins.get(id) }

// Services yields all services in no particular order.
func (g *Gateway) Services() iter.Seq[*Service] { return values(g.services) }

// Routes yields all routes in no particular order.
func (g *Gateway) Routes() iter.Seq[*Route] { return values(g.routes) }

// Plugins yields all plugin instances in no particular order.
func (g *Gateway) Plugins() iter.Seq[*Plugin] { return values(g.plugins) }

// Bound are the plugin instances of one target that are bound to consumers, in
// the order of their ids. It is immutable; a change makes a new one.
type Bound struct{ Plugins []*Plugin }

func values[V any](t table[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.all() {
			if !yield(v) {
				return
			}
		}
	}
}

// within is what a name means to one member: in a group each has its own names. The scope
// of a control plane contains no separator.
func within(scope, name string) string { return scope + "\x00" + name }

func targetKey(scope string, t gateway.Attachment) string {
	return within(scope, t.Name+" "+t.Route+" "+t.Service)
}

func entryOf[T any](r *model.Resource) *Entry[T] {
	spec, _ := r.Spec.(*T)
	if spec == nil { // a store that breaks its contract; an empty spec matches nothing
		spec = new(T)
	}
	return &Entry[T]{ID: r.Name, Scope: r.Scope, Created: r.Created, Version: r.Version, Spec: spec}
}

func pluginOf(r *model.Resource) *Plugin {
	p := &Plugin{Entry: *entryOf[gateway.Plugin](r)}
	var config struct {
		Anonymous string `json:"anonymous"`
	}
	// A configuration that does not decode names nobody here; the plan decodes
	// it again in full and refuses the routes that it is effective on.
	if err := json.Unmarshal(p.Spec.Config, &config); err == nil {
		p.Anonymous = config.Anonymous
	}
	return p
}
