package main

/*
// go test links an executable, in which Envoy's callbacks have no definition.
#cgo linux LDFLAGS: -Wl,-unresolved-symbols=ignore-all
#include "front.h"
*/
import "C"

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
)

// library is the state behind the exported functions, which C calls by name.
var library = host.New(host.NewLogger(envoyLog{}), (*host.Host).OpenCache)

// envoyLog is the log of the Envoy that has loaded this library.
type envoyLog struct{}

func (envoyLog) Enabled(level int) bool { return bool(C.front_log_enabled(C.int(level))) }

func (envoyLog) Write(level int, line []byte) {
	if len(line) > 0 {
		C.front_log(C.int(level), (*C.char)(unsafe.Pointer(&line[0])), C.size_t(len(line)))
	}
}

//export meshgateInit
func meshgateInit(concurrency C.uint32_t) (remember C.bool) {
	defer library.Recovered("init")
	// Every worker may be inside Go, beside the goroutines of look-ups and of the collector.
	host.Prepare(library, int(concurrency)+2, os.Getenv)
	return C.bool(library.Remembers(os.Getenv))
}

//export meshgateConfigNew
func meshgateConfigNew(config *C.char, n C.size_t) (c *C.front_config) {
	defer library.Recovered("config_new")
	h, parsed, err := library.AcquireSource(view(config, n))
	if err != nil {
		library.Log().Error("filter configuration rejected", "error", err)
		return nil
	}
	return C.front_config_new(C.uint32_t(h), C.bool(parsed.ListenerStrips), C.uint8_t(slices.Index(contract.Forwardings[:], parsed.Forwarding)), C.bool(parsed.Demands()))
}

//export meshgateConfigDestroy
func meshgateConfigDestroy(h C.uint32_t) {
	defer library.Recovered("config_destroy")
	library.ReleaseSource(uint32(h))
}

//export meshgateRouteNew
func meshgateRouteNew(config *C.char, n C.size_t) (r *C.front_route) {
	defer library.Recovered("per_route_config_new")
	h, program, err := library.AcquireProgram(view(config, n))
	if err != nil {
		library.Log().Error("route refused", "error", err)
		return nil
	}
	headers, queries := program.Headers(), program.QueryNames()
	names := terminated(headers) + terminated(queries)
	content := contract.ChainContent(view(config, n))
	return C.front_route_new(C.uint32_t(h), (*C.uint8_t)(unsafe.Pointer(&content[0])), C.uint64_t(program.ID()), C.uint8_t(program.Early()), C.uint8_t(len(headers)), C.size_t(len(queries)),
		C.bool(program.BodyAfterLookup()), C.bool(program.ReadsProtocol()),
		(*C.char)(unsafe.Pointer(unsafe.StringData(names))), C.size_t(len(names)))
}

// terminated joins names, each followed by a zero byte.
func terminated(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, "\x00") + "\x00"
}

//export meshgateRouteDestroy
func meshgateRouteDestroy(h C.uint32_t) {
	defer library.Recovered("per_route_config_destroy")
	library.ReleaseProgram(uint32(h))
}

//export meshgateDecide
func meshgateDecide(q *C.front_request, r *C.front_result) { decide(library, q, r) }

//export meshgateRewrite
func meshgateRewrite(program C.uint32_t, hideQuery, hideBody C.uint16_t, contentType, path, body *C.front_text) C.bool {
	return C.bool(rewrite(library, uint32(program), uint16(hideQuery), uint16(hideBody), contentType, path, body))
}

//export meshgateHandOver
func meshgateHandOver(program C.uint32_t, plugin *C.char, n C.size_t, secure C.bool, client *C.char, cn C.size_t, r *C.front_result) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	// The plugin's id is in the buffer that will be overwritten, so it is copied first.
	handOver(library, uint32(program), string(view(plugin, n)), scheme, string(view(client, cn)), r)
}

//export meshgateResolve
func meshgateResolve(source C.uint32_t, l *C.front_lookup, hash *C.uint8_t, plugin *C.char, n C.size_t) C.uint32_t {
	var h contract.Hash
	copy(h[:], unsafe.Slice((*byte)(unsafe.Pointer(hash)), len(h)))
	asker := C.front_asker()
	return C.uint32_t(library.Resolve(uint32(source), host.AskerOf(view(asker.ptr, asker.len)), h, string(view(plugin, n)), host.LookupDeadline,
		func(answer contract.Answer, packed []byte) {
			C.front_lookup_finish(l, C.uint8_t(answer), (*C.char)(unsafe.Pointer(unsafe.SliceData(packed))), C.size_t(len(packed)))
		}))
}

//export meshgateAwait
func meshgateAwait(l *C.front_lookup) C.uint32_t {
	return C.uint32_t(library.Await(host.BodyDeadline, func(contract.Answer, []byte) {
		C.front_lookup_finish(l, C.uint8_t(contract.Unavailable), nil, 0)
	}))
}

//export meshgateGiveUp
func meshgateGiveUp(pending C.uint32_t) { library.GiveUp(uint32(pending)) }
