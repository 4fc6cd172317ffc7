package golang

import (
	"context"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// stream is one request. Either its worker or its goroutine uses it, never both: the goroutine
// runs only while the worker waits for it.
type stream struct {
	api.PassThroughStreamFilter
	host      *host.Host
	callbacks api.FilterCallbackHandler
	config    *config // nil if there is no usable one

	headers api.RequestHeaderMap
	sent    map[string][]string // the headers as they came, by lower-case name
	program *engine.Program
	request engine.Request
	known   []engine.Found
	buf     []byte

	collecting bool // says that the decision waits for the body
	body       body
	ctx        context.Context // ends with the stream
	end        context.CancelFunc
}

// NewFactory returns the factory of the filters of requests. It takes configurations from
// [NewParser].
func NewFactory(h *host.Host) api.StreamFilterFactory {
	return func(c any, callbacks api.FilterCallbackHandler) api.StreamFilter {
		s := &stream{host: h, callbacks: callbacks}
		if c, ok := c.(*config); ok && c != nil && c.take() {
			s.config = c
		}
		s.ctx, s.end = context.WithCancel(context.Background())
		return s
	}
}

// DecodeHeaders decides the request, unless the decision needs more than headers.
func (s *stream) DecodeHeaders(headers api.RequestHeaderMap, endStream bool) api.StatusType {
	return s.guard("headers", func() api.StatusType {
		s.headers, s.sent = headers, headers.GetAllHeaders()
		if s.config == nil {
			return s.refuse(nil)
		}
		if s.config.silent() {
			return s.refuse(engine.Unmarked)
		}
		if !s.config.checks() {
			s.strip()
			return api.Continue
		}
		if s.program = s.host.Program(s.config.program); s.program == nil {
			return s.refuse(nil)
		}
		s.buf = make([]byte, engine.BufferSize)
		s.request.Path = []byte(s.first(":path"))
		if protocol, ok := s.callbacks.StreamInfo().Protocol(); ok {
			s.request.HTTP2 = protocol >= "HTTP/2"
		}
		if endStream {
			s.request.BodyState = engine.BodyRead
		}
		s.read(s.program.Headers()[:s.program.Early()])
		return s.decide()
	})
}

// DecodeData gets pieces of the body. It uses them if the decision waits for the body.
func (s *stream) DecodeData(piece api.BufferInstance, end bool) api.StatusType {
	if !s.collecting {
		return api.Continue
	}
	return s.guard("body", func() api.StatusType { return s.more(piece, end) })
}

// DecodeTrailers removes the trailers that clients may not send. Trailers end a body for which
// the decision waits. If Envoy keeps a part of the body, the decision is made in a goroutine,
// because Envoy would lose that part if the trailers went on at once.
func (s *stream) DecodeTrailers(trailers api.RequestTrailerMap) api.StatusType {
	return s.guard("trailers", func() api.StatusType {
		var reserved []string
		trailers.Range(func(name, _ string) bool {
			if contract.IsReservedTrailer([]byte(name)) {
				reserved = append(reserved, name)
			}
			return true
		})
		for _, name := range reserved {
			trailers.Del(name)
		}
		switch {
		case s.collecting && s.body.kept == nil:
			return s.decideWithBody()
		case s.collecting:
			return s.later("body", s.decideWithBody)
		}
		return api.Continue
	})
}

// OnDestroy ends the look-up that is in progress.
func (s *stream) OnDestroy(api.DestroyReason) {
	if s.gone() {
		return
	}
	s.end()
	s.body.held.Release()
	if s.config != nil {
		s.config.release()
	}
}

// gone reports whether Envoy has destroyed the stream.
func (s *stream) gone() bool { return s.ctx.Err() != nil }

// What the official interface panics with where a stream is called about that Envoy is
// destroying: the stream is told of that a moment later.
const (
	streamDestroyed = "golang filter has been destroyed"
	streamFinished  = "request has been finished"
)

// faulty reports whether a panic is a fault, and does not come of the end of the stream.
func (s *stream) faulty(p any) bool {
	return p != nil && p != streamDestroyed && p != streamFinished && !s.gone()
}

// guard refuses the request if work panics.
func (s *stream) guard(where string, work func() api.StatusType) (status api.StatusType) {
	defer func() {
		if p := recover(); s.faulty(p) {
			s.host.LogPanic(where, p)
			status = s.refuse(nil)
		}
	}()
	status = api.LocalReply // also for a destroyed stream, which needs no answer
	return work()
}

// first returns the first value of a header, "" if there is none.
func (s *stream) first(name string) string {
	if values := s.sent[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// read adds headers to what the decision sees.
func (s *stream) read(names []string) {
	s.request.Headers, s.request.Repeated = make([][]byte, len(names)), 0
	for i, name := range names {
		values := s.sent[name]
		if len(values) > 0 {
			s.request.Headers[i] = append([]byte{}, values[0]...)
		}
		if len(values) > 1 {
			s.request.Repeated |= 1 << i
		}
	}
}
