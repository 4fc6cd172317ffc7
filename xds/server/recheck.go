package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/xds/rejudge"
)

var (
	errExpired  = status.Error(codes.Unauthenticated, "the token has expired")
	errSilent   = status.Error(codes.ResourceExhausted, "too many streams are open without a request")
	errRenewed  = status.Error(codes.Aborted, "the node has a newer token: come back with that")
	errReplaced = status.Error(codes.ResourceExhausted, "the node has opened too many streams")
)

// verdict is a decision about an open stream: its end or its new expiry.
type verdict struct {
	until time.Time
	err   error
}

// Recheck authenticates open streams again with their original tokens and ends those that
// fail. It checks the streams of the named nodes, or all streams if no node is named. Call it
// when the basis for judging tokens has changed. A failure that says nothing about the token
// ends no stream; the server tries again until the stream is judged, because nobody else
// would. Recheck returns when every stream was judged or is scheduled to be, or when the
// context has ended.
func (s *Server) Recheck(ctx context.Context, nodes ...string) {
	if s.cfg.Auth == nil {
		return
	}
	for st, claim := range s.claims(nodes) {
		err := s.recheck(ctx, st, claim)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.cfg.Log.Warn("stream_not_rechecked", "node", claim.node, "error", err)
			s.postpone(st)
		}
	}
}

// recheck judges one stream. An error means that the stream could not be judged.
func (s *Server) recheck(ctx context.Context, st *stream, c claim) error {
	until, err := s.cfg.Auth.Authenticate(ctx, c.node, c.token)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, rejudge.ErrRenewed):
		s.cfg.Log.Info("stream_renewed", "node", c.node)
		s.judge(st, verdict{err: errRenewed})
	case errors.Is(err, ErrUnauthenticated), errors.Is(err, ErrForbidden), errors.Is(err, ErrUnknownNode):
		s.cfg.Log.Warn("stream_revoked", "node", c.node, "error", err)
		s.judge(st, verdict{err: turnAway(refused(err, codes.Unauthenticated, ""), err)})
	case err != nil:
		return err
	default:
		s.judge(st, verdict{until: until})
	}
	return nil
}

// postpone schedules a stream to be judged later, unless it has ended.
func (s *Server) postpone(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.streams[st]; open {
		s.unjudged.Add(st)
	}
}

// recheckLater judges a stream that could not be judged earlier.
func (s *Server) recheckLater(ctx context.Context, st *stream) error {
	s.mu.Lock()
	c := claim{st.claim, st.token}
	s.mu.Unlock()
	return s.recheck(ctx, st, c)
}

func (s *Server) notRechecked(left int, again time.Duration, err error) {
	s.cfg.Log.Warn("streams_not_rechecked", "streams", left, "again_in", again.String(), "error", err)
}

type claim struct{ node, token string }

func (s *Server) claims(nodes []string) map[*stream]claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[*stream]claim)
	for st := range s.streams {
		if st.claim != "" && (len(nodes) == 0 || slices.Contains(nodes, st.claim)) {
			out[st] = claim{st.claim, st.token}
		}
	}
	return out
}

func (s *Server) judge(st *stream, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.judge(v)
}

// judge hands a verdict over without waiting. A verdict that ends the stream is never
// replaced. The caller holds Server.mu.
func (st *stream) judge(v verdict) {
	select {
	case old := <-st.verdicts:
		if old.err != nil {
			v = old
		}
	default:
	}
	st.verdicts <- v
}

// enlist counts an admitted stream and ends the oldest streams of the node beyond the limit.
// Only proven nodes count, so a client cannot end the streams of another node. The caller
// holds Server.mu.
func (s *Server) enlist(st *stream) {
	s.byNode[st.node] = append(s.byNode[st.node], st)
	if all := s.byNode[st.node]; len(all) > s.cfg.Limits.NodeStreams {
		for _, old := range all[:len(all)-s.cfg.Limits.NodeStreams] {
			old.judge(verdict{until: old.until, err: errReplaced})
		}
	}
}

// hush counts a new stream among the silent ones and ends the oldest one beyond the limit. A
// real proxy sends its first request at once. The caller holds Server.mu.
func (s *Server) hush(st *stream) {
	s.silent = append(s.silent, st)
	if len(s.silent) > s.cfg.Limits.Silent {
		s.silent[0].judge(verdict{err: errSilent})
		s.silent = slices.Delete(s.silent, 0, 1)
	}
}

// heard removes a stream from the silent ones. The caller holds Server.mu.
func (s *Server) heard(st *stream) {
	if i := slices.Index(s.silent, st); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
	}
}
