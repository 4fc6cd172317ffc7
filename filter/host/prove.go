package host

import (
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// Prove decides a request once more that was decided before with a verdict which repeats,
// and says how long the verdict holds: an adapter may give it to other requests, as
// [engine.Verdict.Repeats] describes them, without asking. ok is false if nobody can tell.
// The record is the same before the decision and after it, so it is that of the decision.
// The request was counted when it was decided first.
func (h *Host) Prove(source, program uint32, req *engine.Request, v *engine.Verdict, buf []byte) (proof tokencache.Proof, ok bool) {
	s, p := h.sources.get(source), h.Program(program)
	if s == nil || p == nil || !v.Repeats {
		return proof, false
	}
	hash := v.Hash
	cache, ok := s.tokens.provable()
	if !ok {
		return proof, false
	}
	before, ok := cache.Prove(hash)
	if !ok {
		return proof, false
	}
	*v = p.Decide(req, (*peeked)(s.tokens), buf)
	after, ok := cache.Prove(hash)
	return after, ok && after == before && v.Repeats && v.Hash == hash
}
