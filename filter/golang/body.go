package golang

import (
	"strconv"
	"time"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// body is the body of a request whose decision waits for it. Envoy shows it in pieces and keeps
// them. The filter makes Envoy keep them in one buffer, because each piece takes a page of
// memory of its own there: single bytes from a client would take thousands of times their
// size.
type body struct {
	held  host.Held
	until time.Time // when the body must have arrived
	size  int       // bytes that have arrived
	kept  api.BufferInstance
	last  api.BufferInstance // the piece that ended the wait; not in kept
	// resumed says that the wait began after a look-up. Envoy then shows the pieces while it
	// continues the request. It forgets trailers that have come, unless the filter continues
	// the request again.
	resumed bool
}

// collect makes Envoy show the body, which it has not shown so far.
func (s *stream) collect() api.StatusType {
	if s.request.BodyState != engine.BodyUnread {
		return s.refuse(nil)
	}
	s.collecting = true
	s.body.until = time.Now().Add(host.BodyDeadline)
	return api.StopAndBufferWatermark
}

// more takes a piece of the body. It decides once enough of the body has arrived.
func (s *stream) more(piece api.BufferInstance, end bool) api.StatusType {
	b := &s.body
	if b.size == 0 {
		b.held.Open(s.host.Bodies(), s.connection())
	}
	b.size += piece.Len()
	switch {
	case !b.held.More(piece.Len()):
		s.collecting = false
		return s.refuse(engine.BodyBudget)
	case !time.Now().Before(b.until):
		s.collecting = false
		return s.refuse(engine.BodyDeadline)
	case end || b.size > engine.MaxBody:
		b.last = piece
		return s.decideWithBody()
	default:
		return s.keep(piece)
	}
}

// keep makes Envoy keep a piece.
func (s *stream) keep(piece api.BufferInstance) api.StatusType {
	b, status := &s.body, api.StopAndBufferWatermark
	if b.kept == nil {
		b.kept = piece
	} else {
		if err := b.kept.Append(piece.Bytes()); err != nil {
			panic(err) // the request is refused where the panic is recovered
		}
		status = api.StopNoBuffer
	}
	if !b.resumed {
		return status
	}
	return s.later("body", func() api.StatusType { return status })
}

// later runs work in a goroutine. The worker then continues with the status that it returns.
func (s *stream) later(where string, work func() api.StatusType) api.StatusType {
	s.host.Spawn(where, func() {
		s.guard(where, func() api.StatusType {
			if status := work(); status != api.LocalReply && status != api.Running {
				s.callbacks.DecoderFilterCallbacks().Continue(status)
			}
			return api.LocalReply
		})
	})
	return api.Running
}

// connection returns the number of the client's connection.
func (s *stream) connection() uint64 {
	text, err := s.callbacks.GetProperty("connection.id")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// decideWithBody decides with the part of the body that has arrived.
func (s *stream) decideWithBody() api.StatusType {
	s.collecting = false
	s.request.BodyState, s.request.Body = engine.BodyTooLarge, nil
	if s.body.size <= engine.MaxBody {
		s.request.BodyState, s.request.Body = engine.BodyRead, s.body.bytes()
	}
	return s.decide()
}

// bytes returns a copy of what has arrived.
func (b *body) bytes() []byte {
	var all []byte
	for _, part := range []api.BufferInstance{b.kept, b.last} {
		if part != nil {
			all = append(all, part.Bytes()...)
		}
	}
	return all
}

// set replaces what has arrived.
func (b *body) set(data []byte) error {
	for _, part := range []api.BufferInstance{b.kept, b.last} {
		if part == nil {
			continue
		}
		if err := part.Set(data); err != nil {
			return err
		}
		data = nil
	}
	return nil
}
