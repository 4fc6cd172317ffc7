package main

/*
#include "front.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// The constants of front.h are those of contract: an index out of range here
// is a difference.
var (
	_ = [1]struct{}{}[C.FRONT_PACKED-contract.MaxPacked]
	_ = [C.FRONT_BUFFER]struct{}{}[engine.BufferSize]
	_ = [1]struct{}{}[C.FRONT_IDENTITY_HEADERS-int(contract.NumIdentityHeaders)]
	_ = [1]struct{}{}[C.FRONT_HASH-len(contract.Hash{})]
	_ = [1]struct{}{}[C.FRONT_REFUSE-int(engine.Refuse)]
	_ = [1]struct{}{}[C.FRONT_CONTINUE-int(engine.Continue)]
	_ = [1]struct{}{}[C.FRONT_LOOKUP-int(engine.Lookup)]
	_ = [1]struct{}{}[C.FRONT_ISSUE-int(engine.Issue)]
	_ = [1]struct{}{}[C.FRONT_ANSWER_UNAVAILABLE-int(contract.Unavailable)]
)

// request and result are the front's structs under names that tests can use.
type (
	request = C.front_request
	result  = C.front_result
	span    = C.front_span
)

// detailsPrefix begins the response code details of every refusal.
const detailsPrefix = "meshgate_"

// decide is the one entry of the hot path. It writes the outcome into r, whose
// action it sets last: whatever goes wrong before leaves a refusal behind.
func (m *module) decide(q *request, r *result) {
	defer m.recovered("decide")
	s := m.sources.get(uint32(q.source))
	if s == nil {
		return
	}
	m.run(q, r, s.tokens)
	if q.breathe {
		runtime.Gosched()
	}
}

// answer decides again with what a look-up has found.
func (m *module) answer(q *request, r *result, a *answered) {
	defer m.recovered("answer")
	m.run(q, r, a)
	if r.action == C.FRONT_LOOKUP { // the credential changed while the stream stood still
		r.action, r.status = C.FRONT_REFUSE, 0
	}
}

func (m *module) run(q *request, r *result, t engine.Tokens) {
	ref := m.programs.get(uint32(q.program))
	if ref == nil {
		return
	}
	req := engine.Request{
		Path:          view(q.path, q.path_len),
		Credential:    view(q.credential, q.credential_len),
		HasCredential: bool(q.has_credential),
	}
	injectFault(req.Path)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))
	v := ref.Program().Decide(&req, t, buf)
	switch v.Action {
	case engine.Continue:
		for i := range v.Headers {
			r.identity[i] = span{C.uint32_t(v.Headers[i].Off), C.uint32_t(v.Headers[i].Len)}
		}
		r.remove_credential = C.bool(v.RemoveCredential)
	case engine.Lookup, engine.Issue:
		w := text{buf: buf}
		r.plugin = w.add(v.Plugin)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&r.hash[0])), len(r.hash)), v.Hash[:])
		if w.full {
			return
		}
	default:
		if v.Refusal != nil {
			writeRefusal(r, buf, v.Refusal)
		}
		return
	}
	r.action = C.uint8_t(v.Action)
}

// handOver writes into r, in place of its decision to issue, the edits that hand
// the request to the OAuth server.
func (m *module) handOver(program uint32, plugin, scheme, client string, r *result) {
	defer m.recovered("hand over")
	ref := m.programs.get(program)
	if ref == nil {
		return
	}
	w := text{buf: unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))}
	edits := ref.Program().HandOver(&engine.Verdict{Action: engine.Issue, Plugin: plugin}, scheme, client)
	for i := range edits {
		r.names[i], r.values[i] = w.add(edits[i].Name), w.add(edits[i].Value)
	}
	if !w.full {
		r.pairs = C.uint8_t(len(edits))
	}
}

// view makes a slice of Envoy's memory.
func view(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}

// writeRefusal copies a refusal out. What does not fit is left out but for the
// status: the request is refused all the same.
func writeRefusal(r *result, buf []byte, refusal *engine.Refusal) {
	w := text{buf: buf}
	r.details = w.add2(detailsPrefix, refusal.Reason)
	r.grpc_message = w.add(refusal.GRPCMessage())
	n := 0
	for i := range refusal.Headers {
		if n == len(r.names) {
			break
		}
		k, v := w.add(refusal.Headers[i][0]), w.add(refusal.Headers[i][1])
		if w.full {
			break
		}
		r.names[n], r.values[n] = k, v
		n++
	}
	r.pairs = C.uint8_t(n)
	r.body = w.add(refusal.Body)
	r.grpc_status = C.uint8_t(refusal.GRPCStatus)
	r.status = C.uint32_t(refusal.Status)
}

// text fills a buffer with strings and remembers where they are.
type text struct {
	buf  []byte
	n    int
	full bool
}

func (t *text) add(s string) span { return t.add2(s, "") }

func (t *text) add2(a, b string) span {
	if t.full || len(a)+len(b) > len(t.buf)-t.n {
		t.full = true
		return span{}
	}
	at := t.n
	t.n += copy(t.buf[t.n:], a)
	t.n += copy(t.buf[t.n:], b)
	return span{C.uint32_t(at), C.uint32_t(t.n - at)}
}

// answered is a first level that knows exactly one token.
type answered struct {
	hash   contract.Hash
	answer contract.Answer
	packed []byte
}

// Lookup answers for the token that was asked for.
func (a *answered) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if hash != a.hash {
		return 0, contract.Miss
	}
	switch a.answer {
	case contract.Found:
		return copy(dst, a.packed), contract.Found
	case contract.Unknown:
		return 0, contract.Unknown
	default:
		return 0, contract.Unavailable
	}
}
