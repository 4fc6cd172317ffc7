package server

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// Implementations wrap these errors to choose the code that a proxy sees. An error with a gRPC
// status keeps its status. For any other error the proxy sees a general text that does not
// tell the cause.
var (
	ErrUnauthenticated = errors.New("the token does not prove who the proxy is")
	ErrForbidden       = errors.New("the token belongs to another proxy")
	ErrUnknownNode     = errors.New("no such proxy")
)

// Unauthenticated is an [ErrUnauthenticated] with a reason that the proxy may see.
type Unauthenticated struct{ Reason string }

// Error implements error.
func (e *Unauthenticated) Error() string { return ErrUnauthenticated.Error() + ": " + e.Reason }

// Is makes the error match [ErrUnauthenticated].
func (e *Unauthenticated) Is(target error) bool { return target == ErrUnauthenticated }

// Proof may be in the chain of an error of an [Authenticator]. It says that the refused token
// was once issued to a node, although the token is not accepted now.
type Proof interface {
	// Proves reports whether the token was issued to this node.
	Proves(node string) bool
}

// Authenticator proves which node a stream belongs to, at its first request and at each
// [Server.Recheck].
type Authenticator interface {
	// Known checks a bearer token as far as possible without a node. It is called when a
	// stream opens, so that no request of a stranger is read: a request may be as large as the
	// largest that a proxy needs.
	Known(ctx context.Context, token string) error
	// Authenticate checks the bearer token of a node. The stream ends at until; a zero time
	// means never.
	Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error)
}

// Nodes prepares the configuration of a proxy.
type Nodes interface {
	// Connect builds and publishes the set of the node before it returns, so that a proxy
	// never sees an empty set before a full one. release is called once, after the stream has
	// ended. bare says that, by its own account, the proxy has no filter
	// (bootstrap.MetadataFilter).
	Connect(ctx context.Context, nodeID string, bare bool) (release func(), err error)
}

// Secrets makes the bytes of a secret when a stream first subscribes to it. It is called only
// for names that the node's set allows, and from several goroutines at once.
type Secrets interface {
	// Secret returns the secret in the generation that the node's set wants, as seen by the
	// stream. It must not return a certificate for other tags: the stream would keep it as the
	// right one. The context ends when the set turns to another generation of the secret, when
	// the stream ends, or after Limits.SecretTimeout.
	Secret(ctx context.Context, nodeID, name, generation string) (*resource.Resource, error)
}

// Event is something that happened on a stream.
type Event struct {
	Node   string
	Stream uint64
	// Type is empty for events of the stream itself.
	Type resource.TypeURL
	// Revision is the newest revision that the response contains.
	Revision uint64
	// Resources is the number of resources and removals in the response.
	Resources int
	// Metadata is what the node reports about its versions, in Connected only: keys version.*,
	// at most 64 entries and 4 KiB. Nobody has verified it.
	Metadata map[string]string
	// Until is the time at which the token of the stream expires, in Connected only; zero
	// means never.
	Until time.Time
	// Error depends on the event. In Rejected it is the proxy's reason: bounded, and a
	// constant for secrets. In Disconnected it is what the proxy was told, empty if the proxy
	// left by itself. In Refused it is the cause, which is for operators and not for the
	// proxy.
	Error string
	// Renewed says, in Disconnected, that the stream was ended because its node has a newer
	// token, with which it is to return.
	Renewed bool
	// Proved says, in Refused, that Node was proved.
	Proved bool
}

// Observer is told what happens on streams; the events of one stream come in order. Its
// methods run on the goroutine of the stream and must not block.
type Observer interface {
	Connected(Event)
	Sent(Event)
	Acknowledged(Event)
	Rejected(Event)
	Disconnected(Event)
	// Refused reports a stream that is not let in, or is ended, because of its token or the
	// node that it claims. If the stream was connected, Disconnected comes first. Proved says
	// that the stream was connected, or that its token was once issued to Node ([Proof]).
	// Otherwise Node is an unverified claim: empty, or any name of at most 512 bytes.
	Refused(Event)
}

// Nobody is an [Observer] that does nothing.
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
