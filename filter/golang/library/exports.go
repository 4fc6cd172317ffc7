package library

/*
#include "../front/front.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/golang"
)

// front decides for the front in C, if there is one in the library.
var front *golang.Front

// The constants and structs of front.h must be as Go has them. If one differs, an index is out
// of range and the build fails.
var (
	_ = [1]struct{}{}[C.FRONT_SHOWN-golang.MaxShown]
	_ = [1]struct{}{}[C.FRONT_BUFFER-engine.BufferSize]
	_ = [1]struct{}{}[C.FRONT_IDENTITY_HEADERS-int(contract.NumIdentityHeaders)]
	_ = [1]struct{}{}[unsafe.Sizeof(C.front_text{})-unsafe.Sizeof("")]
	_ = [1]struct{}{}[unsafe.Sizeof(C.front_span{})-unsafe.Sizeof(contract.Span{})]
)

//export meshgateMade
func meshgateMade(id C.uint64_t) { front.Made(uint64(id)) }

//export meshgateGone
func meshgateGone(id C.uint64_t) { front.Gone(uint64(id)) }

// meshgatePass is the only entry of a request that passes.
//
//export meshgatePass
func meshgatePass(q *C.front_request, r *C.front_result) C.bool {
	if q.breathe {
		defer runtime.Gosched()
	}
	var e golang.Edits
	// A text of C is laid out like a string. Its memory is C's, and nothing of it is kept.
	sent := unsafe.Slice((*string)(unsafe.Pointer(q.sent)), 2*int(q.headers))
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))
	if !front.Pass(uint64(q.config), sent, bool(q.http2), bool(q.whole), buf, &e) {
		return false
	}
	r.strip, r.path = C.bool(e.Strip), C.int(e.Path)
	for i := range e.Remove {
		r.remove[i] = C.uint64_t(e.Remove[i])
	}
	for i, at := range e.Headers {
		r.identity[i] = C.front_span{C.uint32_t(at.Off), C.uint32_t(at.Len)}
	}
	return true
}
