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
	// Settings tunes what is there.
	Settings
	// Raw patches what the others have made.
	Raw
)

// Attachment is the place that a policy is chosen for (mesh policy selection).
type Attachment int

// Attachments.
const (
	// ByInbound chooses one policy by the tags of an inbound, which its
	// destinations must match; sources say whom it is about.
	ByInbound Attachment = iota
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
	Edits
	// Facts, if set, finds what the edits need of outside the mesh. The result is
	// comparable and becomes Selection.Facts: a change of it makes the edits anew.
	Facts func(o Outside, chosen []*view.Policy) any
	// Explain returns the configuration that a selection amounts to, with the
	// defaults that the edits apply, in the form of the kind's conf.
	Explain func(*Selection) any
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
