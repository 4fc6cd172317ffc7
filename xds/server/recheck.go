package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errExpired  = status.Error(codes.Unauthenticated, "the token has expired")
	errSilent   = status.Error(codes.ResourceExhausted, "too many streams are open without a request")
	errReplaced = status.Error(codes.ResourceExhausted, "the node has opened too many streams")
)

// verdict is news of a stream's right to be open: its end, or its new expiry.
type verdict struct {
	until time.Time
	err   error
}

// The pauses between attempts to recheck what could not be judged.
const (
	firstRecheck = 100 * time.Millisecond
	lastRecheck  = 5 * time.Second
)

// Recheck authenticates open streams again with the tokens they came with and
// ends those that fail: the streams of the named nodes, or of all if none is
// named. Call it when what tokens are judged by has changed. A
// failure that says nothing of the token ends nobody; the server tries again until
// it is judged, because nobody else will. Recheck returns when every stream was
// judged or is to be, or the context has ended.
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

// recheck judges one stream; the error says why it could not.
func (s *Server) recheck(ctx context.Context, st *stream, c claim) error {
	until, err := s.cfg.Auth.Authenticate(ctx, c.node, c.token)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, ErrUnauthenticated), errors.Is(err, ErrForbidden), errors.Is(err, ErrUnknownNode):
		s.cfg.Log.Warn("stream_revoked", "node", c.node, "error", err)
		s.judge(st, verdict{err: refused(err, codes.Unauthenticated, "")})
	case err != nil:
		return err
	default:
		s.judge(st, verdict{until: until})
	}
	return nil
}

// postpone has a stream judged later.
func (s *Server) postpone(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.streams[st]; !open || s.closed {
		return
	}
	s.unjudged[st] = struct{}{}
	if s.retrying {
		return
	}
	s.retrying = true
	s.work.Go(s.retry)
}

// retry rechecks what could not be judged until nothing of it is left.
func (s *Server) retry() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.work.Go(func() { // a check that hangs holds up no end
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	pause := time.NewTimer(firstRecheck)
	defer pause.Stop()
	for next := 2 * firstRecheck; ; next = min(2*next, lastRecheck) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		open, failed := s.postponed(), error(nil)
		for st, claim := range open {
			if err := s.recheck(ctx, st, claim); err != nil {
				failed = err
			}
			if ctx.Err() != nil {
				return
			}
		}
		if s.rested() {
			return
		}
		if failed != nil {
			s.cfg.Log.Warn("streams_not_rechecked", "streams", len(open), "again_in", next.String(), "error", failed)
		}
		pause.Reset(next)
	}
}

// postponed are the streams that are still to be judged.
func (s *Server) postponed() map[*stream]claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[*stream]claim, len(s.unjudged))
	for st := range s.unjudged {
		out[st] = claim{st.claim, st.token}
	}
	return out
}

// rested ends the retries if nothing is left to judge.
func (s *Server) rested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retrying = len(s.unjudged) > 0
	return !s.retrying
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
	delete(s.unjudged, st)
	st.judge(v)
}

// judge hands a verdict over without waiting; an end is never overtaken. The
// caller holds Server.mu.
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

// enlist counts an admitted stream and ends the node's oldest beyond the limit.
// Only proven nodes count, so nobody ends the streams of another. The caller
// holds Server.mu.
func (s *Server) enlist(st *stream) {
	s.byNode[st.node] = append(s.byNode[st.node], st)
	if all := s.byNode[st.node]; len(all) > s.cfg.Limits.NodeStreams {
		for _, old := range all[:len(all)-s.cfg.Limits.NodeStreams] {
			old.judge(verdict{until: old.until, err: errReplaced})
		}
	}
}

// hush counts a new stream among the silent ones and ends the oldest beyond the
// limit: a proxy sends its first request at once. The caller holds Server.mu.
func (s *Server) hush(st *stream) {
	s.silent = append(s.silent, st)
	if len(s.silent) > s.cfg.Limits.Silent {
		s.silent[0].judge(verdict{err: errSilent})
		s.silent = slices.Delete(s.silent, 0, 1)
	}
}

// heard takes a stream from the silent ones. The caller holds Server.mu.
func (s *Server) heard(st *stream) {
	if i := slices.Index(s.silent, st); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
	}
}
