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
	// Settings changes the settings of what exists. Changes after that are for [Edits.Patch].
	Settings
)

// Attachment is a set of the sorts of places that a policy is chosen for (mesh policy
// selection). An edit gets the selection of the narrowest place. For an inbound that is the
// selection for the inbound, else the one for the proxy. For a listener or routes of an
// outbound it is the one for the outbound, else for its service, else for the proxy. For a
// cluster it is the one for its service, else for the outbound, else for the proxy.
type Attachment uint

// These are the sorts of places, each for one policy and for all that match. A policy that has
// targets (model.Targeting) is chosen by them: they, and not its destinations, must match an
// inbound or a whole proxy; they, and not its sources, must match the proxy of an outbound.
const (
	// ByInbound chooses one policy by the tags of an inbound, which its destinations must
	// match. Sources say whom the policy is about.
	ByInbound Attachment = 1 << iota
	// AllByInbound chooses every policy whose destinations match an inbound.
	AllByInbound
	// ByOutbound chooses one policy by the tags of the proxy and the service of
	// an outbound.
	ByOutbound
	// AllByOutbound chooses every policy that matches the proxy and the service of an outbound.
	AllByOutbound
	// ByDestination does what ByOutbound does, for each service that the routes of an outbound
	// lead to.
	ByDestination
	// AllByDestination does what AllByOutbound does, for each of those services.
	AllByDestination
	// ByProxy chooses one policy by the tag sets of a proxy.
	ByProxy
	// AllByProxy chooses every policy that matches one of the tag sets of a proxy.
	AllByProxy
	// ByService does what ByOutbound does, and chooses one policy for mesh.PassThrough, too: for
	// the connections that leave the mesh, or for all requests to a gateway. It is shown as
	// chosen for the service, because outbounds of one service have the same policy.
	ByService
	// AllByService does what ByService does, for every policy that matches.
	AllByService
	// AllByListener chooses every policy of which a target is the listeners of a gateway
	// (mesh.ListenerOf) and matches one, by its tags.
	AllByListener

	// AtInbound, AtOutbound, AtDestination, AtProxy and AtService are the places, for one policy
	// or all.
	AtInbound     = ByInbound | AllByInbound
	AtOutbound    = ByOutbound | AllByOutbound
	AtDestination = ByDestination | AllByDestination
	AtProxy       = ByProxy | AllByProxy
	AtService     = ByService | AllByService
	// All is every place for all policies that match.
	All = AllByInbound | AllByOutbound | AllByDestination | AllByProxy | AllByService | AllByListener
)

// Has reports whether a policy is chosen for one of some sorts of places.
func (a Attachment) Has(any Attachment) bool { return a&any != 0 }

// Policy is one policy. Values are package variables that are never changed.
type Policy struct {
	// Kind describes the resources. Its specs implement model.Selecting.
	Kind       *model.Kind
	Phase      Phase
	Attachment Attachment
	// HTTPOnly policies do nothing on inbounds of other protocols, which is reported.
	HTTPOnly bool
	// NeedsFilter policies need the token filter. A proxy without it refuses every request
	// where such a policy is chosen, which is reported.
	NeedsFilter bool
	// Sourced policies look at whose outbound they edit ([draft.Outbound].Source). Proxies of
	// different services share no outbounds where such a policy is chosen.
	Sourced bool
	// Refuses says whom the policy refuses at the inbounds that it is chosen for.
	Refuses Refusal
	// Proxyless policies are chosen only for those outbounds whose service has no proxies of the mesh
	// that could do what the policy demands. Elsewhere it is done at inbounds.
	Proxyless bool
	// Gateway policies are chosen for the destinations of builtin gateways, one for each. Their
	// edits are those of outbounds; what a policy only does at inbounds is done there for gateways
	// as for all callers.
	Gateway bool
	// Egress policies are in force at the egresses through which services outside a mesh are called,
	// as they are at inbounds.
	Egress bool
	// Order orders policies, the best first, where all that match are chosen. Nil orders them by
	// the rank of their first source, then by [Tie].
	Order func(a, b *view.Policy) int
	// Always lets the edits of inbounds also run with a nil selection, as those of a policy with
	// ByInbound do.
	Always bool
	// Yields is the name of the kind that decides instead of this one at the inbounds, or for the
	// whole proxies, for which one of that kind is chosen. This one is then not chosen there, and
	// its edits of inbounds, or all of them, do not run. The other one has the same edits.
	Yields string
	// Rules says that the policy itself says whom it is about (a target, from and to). It is
	// shown among the rules of a proxy and not among its policies. The rules of a selection for
	// a place are what the edits make of it.
	Rules func(*Selection, Site) []Rule
	Edits
	// Facts, if set, finds what the edits need from the mesh and from outside it. The result
	// is comparable and becomes Selection.Facts. The edits run again when it changes, and not
	// for other changes of the mesh or outside it.
	Facts func(w World, chosen []*view.Policy) any
	// Explain returns the configuration that results from a selection, with the defaults of
	// the edits, in the form of the kind's conf. It does not use facts, because its callers
	// have none.
	Explain func(*Selection) any
	// Idle, if set, says for operators which fields of a selection are accepted and have no effect
	// in a setting: one sentence for each, which begins with the path of the field.
	Idle func(*Selection, Setting) []string
	// Hashing, if set, reports whether a selection has endpoints picked by a hash.
	Hashing func(*Selection) bool
	// Closed says, for operators, who is refused in a mesh by an inbound to which no such policy
	// admits anybody: because none is chosen for it, or because no proxy matches the sources of
	// the chosen one. It returns an empty text if nobody is refused. It is nil for policies of
	// which the sources are not those that are admitted.
	Closed func(*mesh.Mesh) string
	// Admits reports whether chosen policies admit a caller; is says whether the caller has the
	// tags of a selector. It is for policies with Closed. Nil admits the sources of every chosen
	// policy.
	Admits func(chosen []*view.Policy, is func(mesh.Tags) bool) bool
}

// Problematic facts tell what is wrong with the demand of a policy.
type Problematic interface {
	// Problem returns a sentence for operators, empty if nothing is wrong.
	Problem() string
}

// Awaiting facts are not known yet, because their source has not been read.
type Awaiting interface {
	// Awaited returns a sentence for operators about what has not been read, or an empty one.
	// reading says that it is being read; otherwise it cannot be read.
	Awaited() (what string, reading bool)
}

// ErrReading is the error of an [Outside] for something that it has not read yet.
var ErrReading = errors.New("it is being read")

// World is where facts are found.
type World struct {
	// Mesh is the mesh itself; nil while it does not exist.
	Mesh *mesh.Mesh
	// Outside is nil if there is nothing outside.
	Outside Outside
}

// Outside is what a policy may ask about beyond its mesh.
type Outside interface {
	// Gateway returns the newest state of a control plane, or nil if there is none. The error
	// is [ErrReading] if it has not been read yet, and another one if it currently cannot be
	// read. Policies are asked again when that changes.
	Gateway(controlPlane string) (*view.Gateway, error)
}

// Edits are what a policy changes; a nil function changes nothing. They are pure functions of
// draft and selection, and never get an empty selection. An error fails the cell: an outbound
// then keeps its last good version, and an inbound lets nobody pass.
type Edits struct {
	// Split decides where the requests to an outbound go. Only one policy has it.
	Split func(*Selection, mesh.Tags) (*draft.Split, error)
	// Cluster edits the cluster of a destination.
	Cluster func(*draft.Cluster, *Selection) error
	// Outbound edits the listener of an outbound, and OutboundRoutes its routes.
	Outbound       func(*draft.Outbound, *Selection) error
	OutboundRoutes func(*draft.Routes, *Selection) error
	// Prepare adds to every HTTP listener of a builtin gateway what Outbound adds where a policy is
	// chosen, so that a choice changes routes and no listener.
	Prepare func(*draft.Outbound) error
	// ListenerRoutes edits each host of a listener of a builtin gateway, with the selection for the
	// listener. A host that it cannot edit refuses every request.
	ListenerRoutes func(*draft.Routes, *Selection) error
	// Inbound edits the chains of an inbound, and InboundRoutes its routes. With attachment
	// ByInbound, or Always, they also run with a nil selection, because the policy decides what
	// happens if no policy permits anything.
	Inbound       func(*draft.Inbound, *Selection) error
	InboundRoutes func(*draft.Routes, *Selection) error
	// Callers divides the routes of an inbound by who calls ([draft.Routes.ForSources]). It
	// runs after InboundRoutes of all policies, so that what they say holds for every caller.
	Callers func(*draft.Routes, *Selection) error
	// Demand also divides the routes of an inbound by who calls ([draft.Routes.Divide]). It runs
	// after Callers of all policies, so that no route is left out.
	Demand func(*draft.Routes, *Selection) error

	// Route edits each route of an outbound that leads to destinations, with the selection for
	// the outbound. Target edits each destination of such a route, with the selection for that
	// destination. Both run after OutboundRoutes.
	Route  func(*draft.Route, *Selection) error
	Target func(*draft.Target, *Selection) error

	// Contribute adds clusters, listeners and secrets to each proxy with a selection for one
	// of its places.
	Contribute func(*draft.Contribution, *Selection) error

	// Patch is the raw stage. It edits each finished cluster, listener and route table of a
	// proxy, and so can change what no other edit can. Add makes resources that replace those
	// with the same names. Both get the selection for the proxy. A resource that cannot be
	// patched is closed, because the patch may have been meant to keep somebody out.
	Patch func(*draft.Finished, *Selection) error
	Add   func(*draft.Contribution, *Selection) error
}

// Selection is what was chosen for one place, best first. Selections are interned: equal ones
// are one pointer, so that they can be parts of keys.
type Selection struct {
	Policies []*view.Policy
	Facts    any
}

// First returns the spec of the best policy.
func First[T any](s *Selection) *T {
	spec, _ := s.Policies[0].Spec.(*T)
	return spec
}
