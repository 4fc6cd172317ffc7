package host

import "github.com/meshgate/meshgate/filter/engine"

// Decide decides a request by a program and the first level of a token cache. known holds
// the results of the look-ups of this request. buf has [engine.BufferSize] bytes; the
// verdict refers to it. The verdict refuses without a Refusal if a handle names nothing or
// the decision panics. The adapter then answers 503 by itself.
//
// It does not allocate while known is empty.
func (h *Host) Decide(source, program uint32, req *engine.Request, known []engine.Found, buf []byte) (v engine.Verdict) {
	defer h.Recovered("decide")
	s, p := h.sources.get(source), h.Program(program)
	if s == nil || p == nil {
		return v
	}
	if len(known) == 0 {
		return p.Decide(req, s.tokens, buf)
	}
	return p.Decide(req, &engine.Beside{Known: known, Level: s.tokens}, buf)
}

// Settle decides a request whose parts the adapter can all supply, see
// [engine.Program.Settle], with the first level of a source. The verdict refuses without a
// Refusal if the handle names nothing, or if the decision breaks its rules or panics.
func (h *Host) Settle(source uint32, p *engine.Program, req *engine.Request, r engine.Reader, buf []byte) (v engine.Verdict) {
	defer h.Recovered("settle")
	s := h.sources.get(source)
	if s == nil {
		return v
	}
	v, err := p.Settle(req, s.tokens, r, buf)
	if err != nil {
		h.log.Error("request cannot be decided, it is refused", "error", err)
		return engine.Verdict{}
	}
	return v
}
