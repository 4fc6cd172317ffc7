package server

import (
	"cmp"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// turnedAway is the error of a stream that is refused because of its token, the node that it
// claims, or a lack of places for its token or its mesh. The proxy sees only the error; cause
// says what is wrong.
type turnedAway struct {
	error
	cause error
}

// GRPCStatus returns the status that the proxy sees.
func (t turnedAway) GRPCStatus() *status.Status { return status.Convert(t.error) }

// turnAway marks an error as a refusal if the proxy is told that its token or node is not
// accepted. Other errors stay as they are: the call was cancelled, or nobody can judge the
// token at the moment.
func turnAway(told, cause error) error {
	switch status.Code(told) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.NotFound:
		return turnedAway{told, cause}
	}
	return told
}

// proves reports whether an error says that the refused client was once given a token of the
// node.
func proves(err error, node string) bool {
	var p Proof
	return errors.As(err, &p) && p.Proves(node)
}

// note reports the refusal of a stream to the observer, if the error is one.
func (st *stream) note(err error) error {
	t, ok := err.(turnedAway) //nolint:errorlint // nobody wraps it
	if !ok {
		return err
	}
	st.srv.mu.Lock()
	node, proved := cmp.Or(st.node, st.claim), st.proved
	st.srv.mu.Unlock()
	if node == "" {
		md, _ := metadata.FromIncomingContext(st.ctx)
		if values := md.Get(NodeKey); len(values) == 1 && len(values[0]) <= maxNodeID {
			node = values[0]
		}
	}
	cause := t.cause.Error()
	if s, ok := status.FromError(t.cause); ok {
		cause = s.Message()
	} else if _, more, joined := strings.Cut(cause, "\n"); joined {
		cause = more // without the general error, which the proxy is told
	}
	st.srv.cfg.Observer.Refused(Event{Node: node, Stream: st.id, Error: cause, Proved: proved || proves(t.cause, node)})
	return err
}
