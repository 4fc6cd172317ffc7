package server

import (
	"cmp"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// turnedAway is the error of a stream that is refused for what its token is, for who it
// says it is, or because those with its token or of its mesh have all places. The proxy is
// told no more than the error; cause says what is wrong.
type turnedAway struct {
	error
	cause error
}

// GRPCStatus is what the proxy is told.
func (t turnedAway) GRPCStatus() *status.Status { return status.Convert(t.error) }

// turnAway refuses a stream because of what is wrong with it. What says nothing of
// the stream stays what it is: that a call was given up, or that the control plane
// could not judge now.
func turnAway(told, cause error) error {
	switch status.Code(told) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.NotFound:
		return turnedAway{told, cause}
	}
	return told
}

// proves reports whether an error says that whoever was refused is a node.
func proves(err error, node string) bool {
	var p Proof
	return errors.As(err, &p) && p.Proves(node)
}

// note tells the observer that a stream was turned away, if that is its error.
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
		cause = more // it goes with the error that the proxy is told
	}
	st.srv.cfg.Observer.Refused(Event{Node: node, Stream: st.id, Error: cause, Proved: proved || proves(t.cause, node)})
	return err
}
