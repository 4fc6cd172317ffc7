package server

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// The errors that implementations wrap to choose the code a proxy sees. Errors
// that carry a gRPC status keep it; any other one is Unavailable, with a text
// that says nothing of its cause.
var (
	ErrUnauthenticated = errors.New("the token does not prove who the proxy is")
	ErrForbidden       = errors.New("the token belongs to another proxy")
	ErrUnknownNode     = errors.New("no such proxy")
)

// Unauthenticated is an [ErrUnauthenticated] with a reason that the proxy is told.
type Unauthenticated struct{ Reason string }

// Error implements error.
func (e *Unauthenticated) Error() string { return ErrUnauthenticated.Error() + ": " + e.Reason }

// Is makes it an ErrUnauthenticated.
func (e *Unauthenticated) Is(target error) bool { return target == ErrUnauthenticated }

// Proof is what an error of an [Authenticator] may have in its chain: the token that it
// refuses was given to a node, though it does not count now.
type Proof interface {
	// Proves reports whether it was given to this node.
	Proves(node string) bool
}

// Authenticator proves who a stream belongs to, at its first request and at
// each [Server.Recheck].
type Authenticator interface {
	// Known checks a bearer token as far as that goes without a node. It is asked
	// when a stream opens, so that no request of a stranger is read: one may be as
	// large as the largest that a proxy needs.
	Known(ctx context.Context, token string) error
	// Authenticate checks the bearer token of a node. The stream ends at until,
	// zero for never.
	Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error)
}

// Nodes prepares what a proxy should hold.
type Nodes interface {
	// Connect builds and publishes the set of the node before it returns, so
	// that a proxy never sees an empty set on its way to a full one. The
	// release function is called once when the stream has ended. bare says that
	// the proxy has no filter, by its own word (bootstrap.MetadataFilter).
	Connect(ctx context.Context, nodeID string, bare bool) (release func(), err error)
}

// Secrets makes the bytes of a secret at its first subscription. It is asked
// only for names that the node's set allows, from several goroutines at once.
type Secrets interface {
	// Secret returns the secret in the generation that the node's set wants as the
	// stream sees it. A certificate for other tags must not be returned: the stream
	// would keep it as the right one. The context ends when the set turns to
	// another generation of the secret, with the stream, or after
	// Limits.SecretTimeout.
	Secret(ctx context.Context, nodeID, name, generation string) (*resource.Resource, error)
}

// Event is something that happened on a stream.
type Event struct {
	Node   string
	Stream uint64
	// Type is empty for connections.
	Type resource.TypeURL
	// Revision is the newest revision the event's response was made from.
	Revision uint64
	// Resources is how many resources and removals the response carried.
	Resources int
	// Metadata is what the node says of its versions, in Connected only: keys
	// version.*, at most 64 entries and 4 KiB. It is the proxy's word.
	Metadata map[string]string
	// Until is when the token of the stream ends, in Connected only; zero for never.
	Until time.Time
	// Error is the proxy's reason in Rejected, bounded, a constant for secrets; in
	// Disconnected what the proxy was told, empty if it left by itself; in Refused
	// what is wrong, for operators and not for the proxy.
	Error string
	// Renewed says of a Disconnected that the node was sent off to come back with the newer
	// token that it has.
	Renewed bool
	// Proved says of a Refused that its Node was proved.
	Proved bool
}

// Observer is told what happens on streams, in the order of each stream. Its
// methods are called on the stream's goroutine and must not block.
type Observer interface {
	Connected(Event)
	Sent(Event)
	Acknowledged(Event)
	Rejected(Event)
	Disconnected(Event)
	// Refused is told of a stream that is not let in, or ended, because of what its
	// token is or who it says it is; of one that was connected after Disconnected.
	// Proved says that it was connected, or that its token was of the Node once
	// ([Proof]). Otherwise Node is the word of whoever came and was proved by nothing:
	// empty, or any name, at most 512 bytes.
	Refused(Event)
}

// Nobody is an observer that does nothing.
type Nobody struct{}

// Connected implements Observer.
func (Nobody) Connected(Event) {}

// Sent implements Observer.
func (Nobody) Sent(Event) {}

// Acknowledged implements Observer.
func (Nobody) Acknowledged(Event) {}

// Rejected implements Observer.
func (Nobody) Rejected(Event) {}

// Disconnected implements Observer.
func (Nobody) Disconnected(Event) {}

// Refused implements Observer.
func (Nobody) Refused(Event) {}
