package policy

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
)

// Phase orders edits. Inside a phase the order makes no difference; a test
// shuffles it.
type Phase int

// Phases, first to last.
const (
	// Routes decides where traffic goes.
	Routes Phase = iota
	// Settings tunes what is there. What is finished then is for [Edits.Patch].
	Settings
)

// Attachment is a set of the sorts of places that a policy is chosen for (mesh policy
// selection). An edit gets what was chosen for the narrowest of them: that of an inbound
// what was chosen for the inbound, and else for the proxy; that of a listener or of
// routes of an outbound what was chosen for the outbound, else for its service, and else
// for the proxy; that of a cluster what was chosen for its service, else for the
// outbound, and else for the proxy.
type Attachment uint

// Sorts of places.
const (
	// ByInbound chooses one policy by the tags of an inbound, which its
	// destinations must match; sources say whom it is about.
	ByInbound Attachment = 1 << iota
	// AllByInbound chooses every policy whose destinations match an inbound.
	AllByInbound
	// ByOutbound chooses one policy by the tags of the proxy and the service of
	// an outbound.
	ByOutbound
	// ByDestination is ByOutbound for each service that the routes of an
	// outbound lead to.
	ByDestination
	// ByProxy chooses one policy by the tag sets of a proxy.
	ByProxy
)

// Has reports whether a policy is chosen for one of some sorts of places.
func (a Attachment) Has(any Attachment) bool { return a&any != 0 }

// Policy is one policy. Values are package variables that are never changed.
type Policy struct {
	// Kind describes the resources. Its specs implement model.Selecting.
	Kind       *model.Kind
	Phase      Phase
	Attachment Attachment
	// HTTPOnly policies do nothing on inbounds of other protocols; that they are
	// not applied there is reported.
	HTTPOnly bool
	// NeedsFilter policies work by the token filter: a proxy that lacks it refuses
	// every request where one is chosen, which is reported.
	NeedsFilter bool
	// Refuses says whom the policy turns away at the inbounds that it is chosen for.
	Refuses Refusal
	// Rule says that the policy says itself whom it is about (a target and from), so
	// that it is shown among the rules of a proxy and not among its policies.
	Rule bool
	Edits
	// Facts, if set, finds what the edits need of the mesh and of outside it. The result
	// is comparable and becomes Selection.Facts: a change of it, and of nothing else
	// there, makes the edits anew.
	Facts func(w World, chosen []*view.Policy) any
	// Explain returns the configuration that a selection amounts to, with the
	// defaults that the edits apply, in the form of the kind's conf. It does not look at
	// facts, which whoever asks does not have.
	Explain func(*Selection) any
	// Lacking says in a sentence for operators what it means in a mesh that none is chosen
	// for an inbound; empty where nothing is refused for it. It is nil for policies whose
	// lack refuses nothing.
	Lacking func(*mesh.Mesh) string
}

// Problematic facts say what is wrong with what a policy asked for.
type Problematic interface {
	// Problem is a sentence for operators, empty if nothing is wrong.
	Problem() string
}

// Awaiting facts are not known yet, because what they are about is not read.
type Awaiting interface {
	// Awaited says in a sentence for operators what is not read; empty if nothing is.
	// reading tells that it is being read, and not that it cannot be.
	Awaited() (what string, reading bool)
}

// ErrReading is the error of an [Outside] that has not read yet what is asked for.
var ErrReading = errors.New("it is being read")

// World is what facts are found in.
type World struct {
	// Mesh is the mesh itself; nil while it does not exist.
	Mesh *mesh.Mesh
	// Outside is nil where there is nothing.
	Outside Outside
}

// Outside is what a policy may ask of beyond its mesh.
type Outside interface {
	// Gateway is the newest state of a control plane, nil if there is none. The error
	// is [ErrReading] for one that is not read yet, and another one if it cannot be
	// read at present; policies are asked again when that changes.
	Gateway(controlPlane string) (*view.Gateway, error)
}

// Edits are what a policy changes; nil where it changes nothing. They are pure
// functions of draft and selection, and never get an empty selection. An error
// fails the cell: an outbound then keeps its last good version, an inbound lets
// nobody pass.
type Edits struct {
	// Split decides where the requests to an outbound go. One policy has it.
	Split func(*Selection, mesh.Tags) (*draft.Split, error)
	// Cluster edits the cluster of a destination.
	Cluster func(*draft.Cluster, *Selection) error
	// Outbound edits the listener of an outbound, OutboundRoutes its routes.
	Outbound       func(*draft.Outbound, *Selection) error
	OutboundRoutes func(*draft.Routes, *Selection) error
	// Inbound edits the chains of an inbound, InboundRoutes its routes. With
	// attachment ByInbound they run with a nil selection, too: what no policy
	// permits is for the policy to say.
	Inbound       func(*draft.Inbound, *Selection) error
	InboundRoutes func(*draft.Routes, *Selection) error

	// Route edits each route of an outbound that leads to destinations, with what was
	// chosen for the outbound, and Target each destination of such a route, with what was
	// chosen for that destination. They run after OutboundRoutes.
	Route  func(*draft.Route, *Selection) error
	Target func(*draft.Target, *Selection) error

	// Contribute adds clusters, listeners and secrets to each proxy for a place of which
	// something was chosen.
	Contribute func(*draft.Contribution, *Selection) error

	// Patch is the raw stage: it edits each cluster, listener and route table of a proxy
	// when it is finished, and so what nobody else does. Add makes resources that take
	// the place of those of the same names. Both get what was chosen for the proxy.
	// What cannot be patched is closed: it may be the patch that was to keep somebody
	// out.
	Patch func(*draft.Finished, *Selection) error
	Add   func(*draft.Contribution, *Selection) error
}

// Selection is what was chosen for one place, best first. Selections are
// interned: equal ones are one pointer, so that they can be parts of keys.
type Selection struct {
	Policies []*view.Policy
	Facts    any
}

// First is the spec of the best policy.
func First[T any](s *Selection) *T {
	spec, _ := s.Policies[0].Spec.(*T)
	return spec
}
