package main

import (
	"context"
	"strings"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// stream is one request. Its worker uses it, and its goroutine while the worker waits for
// that: never both.
type stream struct {
	api.PassThroughStreamFilter
	callbacks api.FilterCallbackHandler
	config    *config

	headers api.RequestHeaderMap
	sent    map[string][]string // the headers as they came, by lower-case name
	program *engine.Program
	request engine.Request
	known   []engine.Found
	buf     []byte

	collecting bool               // the decision waits for the body
	body       api.BufferInstance // the body, once Envoy has shown it
	ctx        context.Context    // ends with the stream
	end        context.CancelFunc
}

// newStream makes the filter of a request. It must not panic: Envoy would end.
func newStream(c any, callbacks api.FilterCallbackHandler) api.StreamFilter {
	s := &stream{callbacks: callbacks}
	s.config, _ = c.(*config)
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// DecodeHeaders decides the request, unless that needs more than headers.
func (s *stream) DecodeHeaders(headers api.RequestHeaderMap, endStream bool) api.StatusType {
	s.headers = headers
	return s.guarded(func() api.StatusType {
		s.sent = headers.GetAllHeaders()
		if s.config == nil {
			return s.refuse(nil)
		}
		if !s.config.checks() {
			s.strip(false)
			return api.Continue
		}
		if s.program = s.config.host.Program(s.config.program); s.program == nil {
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

// DecodeData gets the whole body where the decision waits for it, and nothing that
// concerns it elsewhere.
func (s *stream) DecodeData(buffer api.BufferInstance, _ bool) api.StatusType {
	if !s.collecting {
		return api.Continue
	}
	return s.guarded(func() api.StatusType {
		s.body = buffer
		return s.gotBody(buffer.Bytes())
	})
}

// DecodeTrailers removes what clients may not say. A body that is waited for is empty if
// trailers come first.
func (s *stream) DecodeTrailers(trailers api.RequestTrailerMap) api.StatusType {
	return s.guarded(func() api.StatusType {
		var reserved []string
		trailers.RangeWithCopy(func(name, _ string) bool {
			if contract.IsReservedTrailer([]byte(name)) {
				reserved = append(reserved, name)
			}
			return true
		})
		for _, name := range reserved {
			trailers.Del(name)
		}
		if s.collecting {
			return s.gotBody(nil)
		}
		return api.Continue
	})
}

// OnDestroy ends the look-up that is on its way.
func (s *stream) OnDestroy(api.DestroyReason) { s.end() }

func (s *stream) gotBody(body []byte) api.StatusType {
	s.collecting = false
	s.request.BodyState, s.request.Body = engine.BodyRead, body
	if len(body) > engine.MaxBody {
		s.request.BodyState, s.request.Body = engine.BodyTooLarge, nil
	}
	return s.decide()
}

// guarded refuses the request if the work panics. A stream that is gone has nothing that
// could be refused.
func (s *stream) guarded(work func() api.StatusType) (status api.StatusType) {
	done := false
	defer func() {
		if !done {
			status = s.refuse(nil)
		}
	}()
	defer s.recovered("stream")
	status = work()
	done = true
	return status
}

func (s *stream) recovered(where string) {
	if s.config != nil {
		s.config.host.Recovered(where)
		return
	}
	library.Recovered(where)
}

// first is the first value of a header, "" if there is none.
func (s *stream) first(name string) string {
	if values := s.sent[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// read shows headers to the decision.
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

// decide runs the chain on the worker. A look-up goes on in a goroutine.
func (s *stream) decide() api.StatusType {
	v := s.verdict()
	switch v.Action {
	case engine.NeedBody:
		s.collecting = true
		return api.StopAndBuffer
	case engine.Lookup:
		go s.lookUp(v)
		return api.Running
	default:
		return s.apply(&v)
	}
}

// verdict decides with what is there, all headers included.
func (s *stream) verdict() engine.Verdict {
	for range 2 {
		v := s.config.host.Decide(s.config.source, s.config.program, &s.request, s.known, s.buf)
		if v.Action != engine.NeedHeaders || len(s.request.Headers) == len(s.program.Headers()) {
			return v
		}
		s.read(s.program.Headers())
	}
	return engine.Verdict{}
}

// lookUp waits for the deeper levels, decides again, and has the worker go on.
func (s *stream) lookUp(v engine.Verdict) {
	defer s.recovered("look-up")
	done := false
	defer func() {
		if !done {
			s.refuse(nil)
		}
	}()
	decoder := s.callbacks.DecoderFilterCallbacks()
	for v.Action == engine.Lookup && len(s.known) <= contract.MaxCredentialNames {
		from := host.SourceOf([]byte(s.callbacks.StreamInfo().DownstreamRemoteAddress()))
		s.known = append(s.known, s.config.host.Ask(s.ctx, s.config.source, from, v.Hash, strings.Clone(v.Plugin)))
		if s.ctx.Err() != nil {
			done = true
			return
		}
		v = s.verdict()
	}
	status := api.StopAndBuffer
	if v.Action == engine.NeedBody {
		s.collecting = true
	} else {
		status = s.apply(&v)
	}
	done = true
	if status != api.LocalReply {
		decoder.Continue(status)
	}
}
