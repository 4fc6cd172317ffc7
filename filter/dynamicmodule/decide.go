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
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// The constants of front.h must equal those of contract. If one differs, an index is out of
// range and the build fails.
var (
	_ = [1]struct{}{}[C.FRONT_PACKED-contract.MaxPacked]
	_ = [C.FRONT_BUFFER]struct{}{}[engine.BufferSize]
	_ = [1]struct{}{}[C.FRONT_IDENTITY_HEADERS-int(contract.NumIdentityHeaders)]
	_ = [1]struct{}{}[C.FRONT_HASH-len(contract.Hash{})]
	_ = map[bool]struct{}{false: {}, C.FRONT_OAUTH_CLUSTER == contract.OAuthCluster: {}}
	_ = map[bool]struct{}{false: {}, C.FRONT_STATE_OAUTH == contract.StateOAuth: {}}
	_ = map[bool]struct{}{false: {}, C.FRONT_STATE_HANDED_OVER == contract.StateHandedOver: {}}
	_ = [1]struct{}{}[C.FRONT_REFUSE-int(engine.Refuse)]
	_ = [1]struct{}{}[C.FRONT_CONTINUE-int(engine.Continue)]
	_ = [1]struct{}{}[C.FRONT_LOOKUP-int(engine.Lookup)]
	_ = [1]struct{}{}[C.FRONT_ISSUE-int(engine.Issue)]
	_ = [1]struct{}{}[C.FRONT_NEED_HEADERS-int(engine.NeedHeaders)]
	_ = [1]struct{}{}[C.FRONT_NEED_BODY-int(engine.NeedBody)]
	_ = [1]struct{}{}[C.FRONT_BODY_READ-int(engine.BodyRead)]
	_ = [1]struct{}{}[C.FRONT_BODY_TOO_LARGE-int(engine.BodyTooLarge)]
	_ = [1]struct{}{}[C.FRONT_BODY-engine.MaxBody]
	_ = [1]struct{}{}[C.FRONT_HEADERS-engine.MaxHeaders]
	_ = [1]struct{}{}[C.FRONT_BUDGET-host.BodyBudget]
	_ = [1]struct{}{}[C.FRONT_BUDGET_CONNECTION-host.BodyBudgetConnection]
	_ = [1]struct{}{}[C.FRONT_ANSWER_UNAVAILABLE-int(contract.Unavailable)]
	_ = [1]struct{}{}[C.FRONT_SLOTS-len(tokencache.Page{}.Slots)]
	_ = [1]struct{}{}[C.FRONT_OWNERS-len(tokencache.Proof{}.Slots)]
	_ = [1]struct{}{}[C.FRONT_PAGE_SLOTS-unsafe.Offsetof(tokencache.Page{}.Slots)]
)

// request and result are the front's structs, under names that tests can use.
type (
	request = C.front_request
	result  = C.front_result
	answer  = C.front_answer
	route   = C.front_route
	text    = C.front_text
	span    = C.front_span
)

// detailsPrefix begins the response code details of every refusal.
const detailsPrefix = C.FRONT_DETAILS

// decide is the only entry of the hot path. It writes the outcome into r and sets the action
// last, so that any failure before that leaves a refusal.
func decide(h *host.Host, q *request, r *result) {
	defer h.Recovered("decide")
	var values [engine.MaxHeaders][]byte
	n := min(int(q.headers), len(values))
	for i := range n {
		if q.present>>i&1 != 0 {
			values[i] = present(&q.values[i])
		}
	}
	req := engine.Request{
		Path: view(q.path.ptr, q.path.len), Headers: values[:n], Repeated: uint32(q.repeated), HTTP2: bool(q.http2),
		BodyState: engine.BodyState(q.body_state), Body: view(q.body.ptr, q.body.len),
	}
	injectFault(req.Path)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))
	var known []engine.Found
	if q.answered != 0 {
		known = answersOf(q)
	}
	v := h.Decide(uint32(q.source), uint32(q.program), &req, known, buf)
	if bool(q.prove) && v.Repeats {
		prove(h, q, r, &req, &v, buf)
	}
	write(r, buf, &v)
	if q.breathe {
		runtime.Gosched()
	}
}

// prove says how long a verdict holds. It may become another one by that.
func prove(h *host.Host, q *request, r *result, req *engine.Request, v *engine.Verdict, buf []byte) {
	p, ok := h.Prove(uint32(q.source), uint32(q.program), req, v, buf)
	if !ok {
		return
	}
	r.proof.page = (*C.front_page)(unsafe.Pointer(p.Page))
	r.proof.generation, r.proof.end = C.uint64_t(p.Generation), C.int64_t(p.End)
	for i := range p.Slots {
		r.proof.slots[i], r.proof.counts[i] = C.uint32_t(p.Slots[i]), C.uint64_t(p.Counts[i])
	}
}

// answersOf returns the answers that the front already has for a request. Their records are
// not copied.
func answersOf(q *request) []engine.Found {
	known := make([]engine.Found, min(int(q.answered), len(q.answers)))
	for i := range known {
		a := &q.answers[i]
		known[i].Answer, known[i].Packed = contract.Answer(a.answer), view(a.packed, C.size_t(a.packed_len))
		copy(known[i].Hash[:], unsafe.Slice((*byte)(unsafe.Pointer(a.hash)), len(contract.Hash{})))
	}
	return known
}

// write tells the front what to do.
func write(r *result, buf []byte, v *engine.Verdict) {
	switch v.Action {
	case engine.Continue:
		writeIdentity(r, v)
	case engine.Lookup, engine.Issue:
		w := writer{buf: buf}
		r.plugin = w.add(v.Plugin)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&r.hash[0])), len(r.hash)), v.Hash[:])
		if w.full {
			return
		}
	case engine.NeedHeaders, engine.NeedBody:
	default:
		if v.Refusal != nil {
			writeRefusal(r, buf, writeIdentity(r, v), v.Refusal)
		}
		return
	}
	r.remove, r.hide_query, r.hide_body = C.uint32_t(v.Remove), C.uint16_t(v.HideQuery), C.uint16_t(v.HideBody)
	r.action = C.uint8_t(v.Action)
}

// present returns the value of a header that was sent. It is never nil.
func present(t *text) []byte {
	if t.ptr == nil {
		return empty
	}
	return view(t.ptr, t.len)
}

var empty = []byte{}

// rewrite removes hidden credentials from path and body, in place. It reports whether this
// succeeded.
func rewrite(h *host.Host, program uint32, hideQuery, hideBody uint16, contentType, path, body *text) (done bool) {
	defer h.Recovered("rewrite")
	p := h.Program(program)
	if p == nil {
		return false
	}
	newPath, newBody := p.Rewrite(&engine.Verdict{HideQuery: hideQuery, HideBody: hideBody},
		view(path.ptr, path.len), view(contentType.ptr, contentType.len), view(body.ptr, body.len))
	path.len, body.len = C.size_t(len(newPath)), C.size_t(len(newBody))
	return true
}

// handOver replaces the decision in r by the edits that hand the request to the OAuth
// server.
func handOver(h *host.Host, program uint32, plugin, scheme, client string, r *result) {
	defer h.Recovered("hand over")
	p := h.Program(program)
	if p == nil {
		return
	}
	w := writer{buf: unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))}
	h.Hasten() // the issued token will be used next
	edits := p.HandOver(&engine.Verdict{Action: engine.Issue, Plugin: plugin}, scheme, client)
	for i := range edits {
		r.names[i], r.values[i] = w.add(edits[i].Name), w.add(edits[i].Value)
	}
	if !w.full {
		r.pairs = C.uint8_t(len(edits))
	}
}

// view returns a slice of Envoy's memory.
func view(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}

// writeIdentity records where in the buffer the values of identity headers are, and returns
// where they end.
func writeIdentity(r *result, v *engine.Verdict) (end int) {
	for i := range v.Headers {
		s := v.Headers[i]
		r.identity[i] = span{C.uint32_t(s.Off), C.uint32_t(s.Len)}
		end = max(end, int(s.Off+s.Len))
	}
	return end
}

// writeRefusal copies a refusal into the buffer, behind the used part. The client's answer
// is more important than the log: if both do not fit, the used part is overwritten. If the
// answer alone does not fit, only its status is kept; the request is refused all the same.
func writeRefusal(r *result, buf []byte, used int, refusal *engine.Refusal) {
	if used+sizeOf(refusal) > len(buf) {
		used, r.identity = 0, [len(r.identity)]span{}
	}
	w := writer{buf: buf, n: used}
	r.details = w.add2(detailsPrefix, string(refusal.Reason))
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

// sizeOf returns the number of bytes that a refusal takes in the buffer.
func sizeOf(r *engine.Refusal) int {
	n := len(detailsPrefix) + len(r.Reason) + len(r.GRPCMessage()) + len(r.Body)
	for i := range r.Headers {
		n += len(r.Headers[i][0]) + len(r.Headers[i][1])
	}
	return n
}

// writer fills a buffer with strings and remembers where they are.
type writer struct {
	buf  []byte
	n    int
	full bool
}

func (t *writer) add(s string) span { return t.add2(s, "") }

func (t *writer) add2(a, b string) span {
	if t.full || len(a)+len(b) > len(t.buf)-t.n {
		t.full = true
		return span{}
	}
	at := t.n
	t.n += copy(t.buf[t.n:], a)
	t.n += copy(t.buf[t.n:], b)
	return span{C.uint32_t(at), C.uint32_t(t.n - at)}
}
