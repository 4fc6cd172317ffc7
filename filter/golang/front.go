package golang

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// Front decides requests for a front in C that stands before the official interface, as far
// as they can be let pass with what is known already. All others go the way of [NewFactory]
// and are decided there from the start, so a decision of Front that is no pass has no effect.
type Front struct {
	host *host.Host
	// made is the configuration that was made last, until its id is known.
	made atomic.Pointer[config]

	// mu is held for reading during a decision: what a configuration stands for is given back
	// after it was forgotten, so a decision cannot see that.
	mu      sync.RWMutex
	configs map[uint64]*config
}

// Edits are what lets a request pass.
type Edits struct {
	// Strip has the headers and trailers removed that clients may not send.
	Strip bool
	// Remove has bit i set if header i of the request must be removed, and all of its name.
	Remove [MaxShown / 64]uint64
	// Path is one more than the number of the header that is the path, if that has been
	// edited in place, or 0.
	Path int
	// Headers say where in the buffer the values of the identity headers are.
	Headers [contract.NumIdentityHeaders]contract.Span
}

// MaxShown is how many headers a front may show.
const MaxShown = 128

// NewFront returns what decides for a front with the configurations of its Parser.
func NewFront(h *host.Host) *Front { return &Front{host: h, configs: map[uint64]*config{}} }

// Parser is [NewParser] for configurations that the front may decide by.
func (f *Front) Parser() api.StreamFilterConfigParser {
	return &remembering{StreamFilterConfigParser: NewParser(f.host), front: f}
}

// remembering is a parser that tells the front what it has made.
type remembering struct {
	api.StreamFilterConfigParser
	front *Front
}

// Parse implements [api.StreamFilterConfigParser].
func (r *remembering) Parse(message *anypb.Any, callbacks api.ConfigCallbackHandler) (any, error) {
	made, err := r.StreamFilterConfigParser.Parse(message, callbacks)
	if c, ok := made.(*config); ok && err == nil {
		r.front.made.Store(c)
	}
	return made, err
}

// Merge implements [api.StreamFilterConfigParser].
func (r *remembering) Merge(parent, child any) any {
	made := r.StreamFilterConfigParser.Merge(parent, child)
	if c, ok := made.(*config); ok {
		r.front.made.Store(c)
	}
	return made
}

// Made says which id the configuration has got that was made last. The caller makes one
// configuration at a time.
func (f *Front) Made(id uint64) {
	c := f.made.Swap(nil)
	if c == nil || id == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.configs[id] = c
}

// Gone forgets a configuration that is about to be destroyed.
func (f *Front) Gone(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.configs, id)
}

// Pass reports whether a request passes with what is known, and what must be done about it.
// sent are the names and values of its headers in turn, in memory that may be edited; whole
// says that there is no body. buf has [engine.BufferSize] bytes. It does not allocate.
func (f *Front) Pass(id uint64, sent []string, http2, whole bool, buf []byte, e *Edits) (passes bool) {
	defer f.host.Recovered("front")
	f.mu.RLock()
	defer f.mu.RUnlock()
	c := f.configs[id]
	if c == nil || c.unusable || c.silent() {
		return false
	}
	*e = Edits{Strip: !c.strips}
	if !c.checks() {
		return true
	}
	req := engine.Request{HTTP2: http2}
	if whole {
		req.BodyState = engine.BodyRead
	}
	return f.decide(c, sent, &req, buf, e)
}

// decide decides with the early headers, and with all of them if that is asked for.
func (f *Front) decide(c *config, sent []string, req *engine.Request, buf []byte, e *Edits) (passes bool) {
	p := f.host.Program(c.program)
	if p == nil {
		return false
	}
	r := *req // what the loop puts into it stays on the stack
	at, path := find(sent, ":path"), empty
	if at >= 0 {
		path = bytesOf(sent[at+1])
	}
	r.Path = path
	var v engine.Verdict
	var values [engine.MaxHeaders][]byte
	for _, n := range [2]int{p.Early(), len(p.Headers())} {
		from := len(r.Headers)
		r.Headers = values[:n]
		r.Repeated |= show(sent, p.Headers(), r.Headers, from)
		if v = f.host.Decide(c.source, c.program, &r, nil, buf); v.Action != engine.NeedHeaders {
			break
		}
	}
	if v.Action != engine.Continue || v.HideBody != 0 {
		return false
	}
	if v.HideQuery != 0 {
		shorter, _ := p.Rewrite(&v, path, nil, nil)
		sent[at+1] = sent[at+1][:len(shorter)]
		e.Path = at/2 + 1
	}
	removed(e, p, sent, v.Remove)
	e.Headers = v.Headers
	return true
}

// show finds the values of headers from a number on, and says which were sent more than once.
func show(sent, names []string, values [][]byte, from int) (repeated uint32) {
	for i := from; i < len(values); i++ {
		for at := 0; at+1 < len(sent); at += 2 {
			switch {
			case sent[at] != names[i]:
			case values[i] == nil:
				values[i] = bytesOf(sent[at+1])
			default:
				repeated |= 1 << i
			}
		}
	}
	return repeated
}

// removed notes which headers go.
func removed(e *Edits, p *engine.Program, sent []string, remove uint32) {
	for i, name := range p.Headers() {
		if remove>>i&1 == 0 {
			continue
		}
		if at := find(sent, name); at >= 0 {
			e.Remove[at/2/64] |= 1 << (at / 2 % 64)
		}
	}
}

// find is where the first header of a name is, or -1.
func find(sent []string, name string) int {
	for i := 0; i+1 < len(sent); i += 2 {
		if sent[i] == name {
			return i
		}
	}
	return -1
}

// bytesOf is the memory of a text. It is never nil.
func bytesOf(text string) []byte {
	if text == "" {
		return empty
	}
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // the front's memory, which may be edited
}

var empty = []byte{}
