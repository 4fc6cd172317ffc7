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
	ID      string
	Created time.Time
	// Version counts the writes of the resource.
	Version uint64
	Spec    *T
}

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
	// targets finds plugins by where they are attached.
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
}

// Scope is the control plane's name.
func (g *Gateway) Scope() string { return g.scope }

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

// Attached returns the enabled plugin instance at a target.
func (g *Gateway) Attached(t gateway.Attachment) (*Plugin, bool) {
	p, ok := g.targets.get(targetKey(t))
	return p, ok && p.Spec.Enabled
}

// Bound are the plugin instances of one target that are bound to consumers, in
// the order of their ids. It is immutable; a change makes a new one.
type Bound struct{ Plugins []*Plugin }

// Bound returns the instances at a target that are bound to consumers, enabled
// or not; nil if there are none.
func (g *Gateway) Bound(t gateway.Attachment) *Bound {
	b, _ := g.bound.get(targetKey(t))
	return b
}

// Anonymous resolves a plugin's config.anonymous: by id first, then by
// username. It is nil if nobody answers to the value, or no plugin names it.
func (g *Gateway) Anonymous(configured string) *Consumer {
	c, _ := g.anonymous.get(configured)
	return c
}

func values[V any](t table[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.all() {
			if !yield(v) {
				return
			}
		}
	}
}

func targetKey(t gateway.Attachment) string { return t.Name + " " + t.Route + " " + t.Service }

func entryOf[T any](r *model.Resource) *Entry[T] {
	spec, _ := r.Spec.(*T)
	if spec == nil { // a store that breaks its contract; an empty spec matches nothing
		spec = new(T)
	}
	return &Entry[T]{ID: r.Name, Created: r.Created, Version: r.Version, Spec: spec}
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
