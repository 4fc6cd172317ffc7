package golang

import (
	"strings"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// decide runs the chain on the worker. A look-up goes on in a goroutine.
func (s *stream) decide() api.StatusType {
	v := s.verdict()
	switch v.Action {
	case engine.NeedBody:
		s.collecting = true
		return api.StopAndBuffer
	case engine.Lookup:
		client := s.callbacks.StreamInfo().DownstreamRemoteAddress()
		s.host.Spawn("look-up", func() { s.lookUp(v, client) })
		return api.Running
	default:
		return s.apply(&v)
	}
}

// decideWithBody decides with the body that was waited for. It is empty if buffer is nil.
func (s *stream) decideWithBody(buffer api.BufferInstance) api.StatusType {
	s.collecting = false
	s.request.BodyState, s.request.Body = engine.BodyRead, nil
	switch {
	case buffer == nil:
	case buffer.Len() > engine.MaxBody:
		s.request.BodyState = engine.BodyTooLarge
	default:
		s.request.Body = buffer.Bytes()
	}
	return s.decide()
}

// verdict decides with what is there, all headers included.
func (s *stream) verdict() engine.Verdict {
	for range 2 {
		v := s.host.Decide(s.config.source, s.config.program, &s.request, s.known, s.buf)
		if v.Action != engine.NeedHeaders || len(s.request.Headers) == len(s.program.Headers()) {
			return v
		}
		s.read(s.program.Headers())
	}
	return engine.Verdict{}
}

// lookUp waits for the deeper levels, decides again, and has the worker go on.
func (s *stream) lookUp(v engine.Verdict, client string) {
	s.guard("look-up", func() api.StatusType {
		for v.Action == engine.Lookup && len(s.known) <= contract.MaxCredentialNames {
			found := s.host.Ask(s.ctx, s.config.source, host.AskerOf([]byte(client)), v.Hash, strings.Clone(v.Plugin))
			if s.gone() {
				return api.LocalReply
			}
			s.known = append(s.known, found)
			v = s.verdict()
		}
		status := api.StopAndBuffer
		if v.Action == engine.NeedBody {
			s.collecting = true
		} else {
			status = s.apply(&v)
		}
		if status != api.LocalReply {
			s.callbacks.DecoderFilterCallbacks().Continue(status)
		}
		return api.LocalReply
	})
}
