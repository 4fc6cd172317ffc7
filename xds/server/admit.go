package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/meshgate/meshgate/xds/places"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// maxNodeID is the maximum length of a node id in bytes.
const maxNodeID = 512

// NodeKey is the metadata key in which a stream names its node. The server reads no request of
// a stream whose token is not accepted; this key still lets a refusal name the node.
const NodeKey = "meshgate-node"

// known refuses a stream whose token is not good for any node. It runs before the first
// request is read.
func (st *stream) known() error {
	auth := st.srv.cfg.Auth
	if auth == nil {
		return nil
	}
	token, err := bearer(st.ctx)
	if err != nil {
		return turnAway(err, err)
	}
	if err := auth.Known(st.ctx, token); err != nil {
		return st.judged(err)
	}
	return nil
}

// judged returns how a stream ends whose token was not accepted. A token that could not be
// judged, for example because the store did not answer, is no refusal: the proxy comes back.
func (st *stream) judged(err error) error {
	told := refused(err, codes.Unavailable, "the token cannot be judged at the moment")
	if status.Code(told) == codes.Unavailable {
		st.log.Warn("token_not_judged", "error", err)
	}
	return turnAway(told, err)
}

// settle gives a stream a place among the streams of its token and its mesh. A stream that
// gets no place is refused and reported to the observer. So operators see, where they look for
// nodes, that a fleet has outgrown its token or that somebody has stolen the token.
func (st *stream) settle() error {
	var owner places.Owner
	if st.srv.cfg.Auth != nil && st.srv.cfg.Owner != nil {
		token, err := bearer(st.ctx)
		if err != nil {
			return err
		}
		owner = st.srv.cfg.Owner(token)
	}
	st.srv.mu.Lock()
	defer st.srv.mu.Unlock()
	if err := st.srv.places.Take(owner); err != nil {
		err := status.Error(codes.ResourceExhausted, "too many streams: "+err.Error())
		return turnedAway{err, err}
	}
	st.owner = &owner
	return nil
}

// admit proves who the proxy is and prepares its set. It notes the claim and the token before
// it checks them, so that a concurrent Recheck does not miss the stream. A stream that a
// Recheck refuses while its set is prepared is not admitted.
func (st *stream) admit(first request) (func(), error) {
	if first.node == "" || len(first.node) > maxNodeID {
		return nil, status.Error(codes.InvalidArgument, "the first request must name the node")
	}
	cfg := st.srv.cfg
	if cfg.Auth != nil {
		token, err := bearer(st.ctx)
		if err != nil {
			return nil, turnAway(err, err)
		}
		st.srv.mu.Lock()
		st.claim, st.token = first.node, token
		st.srv.mu.Unlock()
		until, err := cfg.Auth.Authenticate(st.ctx, first.node, token)
		st.srv.mu.Lock()
		st.proved = err == nil
		st.srv.mu.Unlock()
		if err == nil && !until.IsZero() && !until.After(cfg.Now()) {
			return nil, turnAway(errExpired, errExpired)
		}
		st.until = until
		if err != nil {
			return nil, st.judged(err)
		}
	}
	release, err := cfg.Nodes.Connect(st.ctx, first.node, first.bare)
	if err != nil {
		told := refused(err, codes.Unavailable, "the configuration of the node is not available")
		if errors.Is(err, ErrUnknownNode) {
			return nil, turnAway(told, err)
		}
		st.log.Warn("node_not_prepared", "node", first.node, "error", err)
		return nil, told
	}
	if release == nil {
		release = func() {}
	}
	if err := st.join(first.node); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// join adds a stream to the streams of its node, unless the stream was refused meanwhile.
func (st *stream) join(node string) error {
	st.srv.mu.Lock()
	defer st.srv.mu.Unlock()
	select {
	case v := <-st.verdicts:
		if v.err != nil {
			return v.err
		}
		st.until = v.until
	default:
	}
	// PushSecret reads the id under the same lock.
	st.node = node
	st.srv.enlist(st)
	return nil
}

// bearer returns the token of the stream. More than one is an error rather than
// a choice (RFC 6750 section 2: one method per request).
func bearer(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) != 1 {
		return "", status.Error(codes.Unauthenticated, "exactly one authorization value is required")
	}
	token := strings.TrimSpace(values[0])
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(rest)
	}
	if token == "" {
		return "", status.Error(codes.Unauthenticated, "the token is empty")
	}
	return token, nil
}

// refused turns the error of an implementation into the error that the proxy sees.
func refused(err error, code codes.Code, text string) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch told, ok := errors.AsType[*Unauthenticated](err); {
	case ok:
		return status.Error(codes.Unauthenticated, told.Error())
	case errors.Is(err, ErrUnauthenticated):
		return status.Error(codes.Unauthenticated, ErrUnauthenticated.Error())
	case errors.Is(err, ErrForbidden):
		return status.Error(codes.PermissionDenied, ErrForbidden.Error())
	case errors.Is(err, ErrUnknownNode):
		return status.Error(codes.NotFound, ErrUnknownNode.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(code, text)
}

// namesForOne is the number of names that the server may look at for the cost of one request.
// A request for a hundred thousand names takes as long as hundreds of others.
const namesForOne = 256

// bucket limits requests that do more than accept a response, so that a proxy in a loop does
// not occupy a core.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time, l Limits, cost int) bool {
	if !b.last.IsZero() {
		b.tokens = min(float64(l.Burst), b.tokens+now.Sub(b.last).Seconds()*float64(l.Rate))
	}
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens -= float64(cost) // the result may be negative: one expensive request is not a loop
	return true
}
