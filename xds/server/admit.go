package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// maxNodeID bounds a node id in bytes.
const maxNodeID = 512

// known refuses a stream without a token that is good for some node, before
// anything of it is read.
func (st *stream) known() error {
	auth := st.srv.cfg.Auth
	if auth == nil {
		return nil
	}
	token, err := bearer(st.ctx)
	if err != nil {
		return err
	}
	if err := auth.Known(st.ctx, token); err != nil {
		st.log.Warn("stream_refused", "error", err)
		return refused(err, codes.Unauthenticated, "authentication failed")
	}
	return nil
}

// admit proves who the proxy is and prepares its set. What the stream came with
// is noted before it is checked, so that a Recheck meanwhile does not miss it; who
// was refused by one while its set was prepared is not admitted.
func (st *stream) admit(first request) (func(), error) {
	if first.node == "" || len(first.node) > maxNodeID {
		return nil, status.Error(codes.InvalidArgument, "the first request must name the node")
	}
	cfg := st.srv.cfg
	if cfg.Auth != nil {
		token, err := bearer(st.ctx)
		if err != nil {
			return nil, err
		}
		st.srv.mu.Lock()
		st.claim, st.token = first.node, token
		st.srv.mu.Unlock()
		until, err := cfg.Auth.Authenticate(st.ctx, first.node, token)
		if err == nil && !until.IsZero() && !until.After(cfg.Now()) {
			return nil, errExpired
		}
		st.until = until
		if err != nil {
			st.log.Warn("stream_refused", "node", first.node, "error", err)
			return nil, refused(err, codes.Unauthenticated, "authentication failed")
		}
	}
	release, err := cfg.Nodes.Connect(st.ctx, first.node, first.bare)
	if err != nil {
		st.log.Warn("node_not_prepared", "node", first.node, "error", err)
		return nil, refused(err, codes.Unavailable, "the configuration of the node is not available")
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

// join counts a stream among those of its node, unless it was refused meanwhile.
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
	// The id is read under the same lock by PushSecret.
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

// refused turns an implementation's error into what the proxy sees.
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

// bucket bounds requests that answer nothing, so that a proxy in a loop does
// not take a core.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time, l Limits) bool {
	if !b.last.IsZero() {
		b.tokens = min(float64(l.Burst), b.tokens+now.Sub(b.last).Seconds()*float64(l.Rate))
	}
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
