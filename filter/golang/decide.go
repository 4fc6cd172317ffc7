package golang

import (
	"strings"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// decide runs the chain on the worker. If it needs a look-up, it goes on in a goroutine.
func (s *stream) decide() api.StatusType {
	v := s.verdict()
	switch v.Action {
	case engine.NeedBody:
		return s.collect()
	case engine.Lookup:
		client := s.callbacks.StreamInfo().DownstreamRemoteAddress()
		return s.later("look-up", func() api.StatusType { return s.lookUp(v, client) })
	default:
		return s.apply(&v)
	}
}

// verdict decides with what is known so far, including all headers.
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

// lookUp waits for the answer of Redis or the control plane and decides again. The worker
// continues with the status that it returns.
func (s *stream) lookUp(v engine.Verdict, client string) api.StatusType {
	for v.Action == engine.Lookup && len(s.known) <= contract.MaxCredentialNames {
		found := s.host.Ask(s.ctx, s.config.source, host.AskerOf([]byte(client)), v.Hash, strings.Clone(v.Plugin))
		if s.gone() {
			return api.LocalReply
		}
		s.known = append(s.known, found)
		v = s.verdict()
	}
	if v.Action == engine.NeedBody {
		s.body.resumed = true
		return s.collect()
	}
	return s.apply(&v)
}
