package engine

import (
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// BufferSize is the smallest buffer in bytes that [Program.Decide] works with:
// the packed records of two credentials fit, for what the first says of scope
// and user stays when the second says who the consumer is.
const BufferSize = 2 * contract.MaxPacked

// Program is one compiled chain. It is immutable and shared by every request of
// the routes that carry the chain.
type Program struct {
	id       uint64
	headers  headerList
	service  string
	protocol *protocolStep
	// steps run in the order of the chain's plugins. A further kind of plugin is
	// a further member of step.
	steps []step
	// params are the names of credentials in queries and bodies; a verdict names
	// them by bits.
	params []param
	// token is the oauth2 plugin of the chain, or nil; issues says that there is
	// an OAuth server for its endpoints.
	token  *oauth2Step
	issues bool
	// lateBody says that a plugin which is not the first may want the body.
	lateBody bool
	// broken refuses every request; the other fields are then empty.
	broken *Refusal
	fault  string
}

// step is one plugin of a chain. Exactly one member is set. It is a struct and
// not an interface, because arguments of interface calls escape to the heap.
type step struct {
	oauth2      *oauth2Step
	keyAuth     *keyAuthStep
	termination *terminationStep
}

// Broken returns a program that refuses every request with 503. It stands for a
// chain that cannot be used: refusing a route is an error somebody sees, letting
// it through is one that nobody sees. The reason is for logs; clients get a
// constant text, because the cause may quote configuration.
func Broken(reason string) *Program {
	return &Program{broken: refuseBroken, fault: reason}
}

// programs counts those that were compiled.
var programs atomic.Uint64

// ID tells the programs of a process apart, also those that are gone. It is 0 for one that
// is [Broken].
func (p *Program) ID() uint64 { return p.id }

// Fault returns why the program refuses everything, or "" if it does not.
func (p *Program) Fault() string { return p.fault }

// Headers returns the lower-case names of the headers, pseudo headers among
// them, that [Request.Headers] holds the values of. The slice is not to be
// changed.
func (p *Program) Headers() []string { return p.headers.names }

// Early returns how many of the headers the first decision needs. The others
// are wanted by few requests, which say so with NeedHeaders.
func (p *Program) Early() int { return p.headers.early }

// BodyAfterLookup reports whether a decision may ask for the body after it has
// asked for a look-up. A proxy must then be able to collect the body while it
// waits.
func (p *Program) BodyAfterLookup() bool { return p.lateBody }

// ReadsProtocol reports whether a decision looks at Request.HTTP2.
func (p *Program) ReadsProtocol() bool { return p.protocol != nil }

// Decide runs the chain on one request. The packed records found by tokens, or
// the anonymous consumer, are left in buf; the spans of the verdict point into
// it, so buf must stay untouched until they have been used. A buf shorter than
// [BufferSize] refuses with 503. It allocates only if it reads a body.
func (p *Program) Decide(req *Request, tokens Tokens, buf []byte) (v Verdict) {
	if p.broken != nil {
		v.Refusal = p.broken
		return v
	}
	if len(buf) < BufferSize || len(req.Headers) < p.headers.early {
		v.Refusal = refuseUnusable
		return v
	}
	if p.protocol != nil && p.protocol.run(req, &v) {
		return v
	}
	d := decision{program: p, tokens: tokens, buf: buf}
	if p.issues && p.token != nil {
		switch p.token.endpoint(req.Path) {
		case publicEndpoint:
			v.Action, v.Plugin = Issue, p.token.id
			return v
		case issuingEndpoint:
			d.issuing = true
		case noEndpoint:
		}
	}
	for i := range p.steps {
		if p.steps[i].run(req, &d, &v) {
			return v
		}
	}
	v.Action = Continue
	// With two look-ups the verdict would depend on two records; a body is read anew for
	// each request.
	if d.lookups == 1 && d.credential && d.body == nil {
		v.Repeats, v.Hash = true, d.hash
	}
	if d.issuing {
		v.Action, v.Plugin, v.Repeats = Issue, p.token.id, false
		v.Headers = [contract.NumIdentityHeaders]contract.Span{}
	}
	return v
}

// run executes one plugin. It reports done if the verdict is final and the rest
// of the chain must not run.
func (s *step) run(req *Request, d *decision, v *Verdict) (done bool) {
	switch {
	case s.oauth2 != nil:
		return s.oauth2.run(req, d, v)
	case s.keyAuth != nil:
		return s.keyAuth.run(req, d, v)
	default:
		return s.termination.run(req, d, v)
	}
}

// decision is what the steps of one chain share while they run. The request is
// not in it: what it holds is handed to an interface, and all of that escapes.
type decision struct {
	program *Program
	tokens  Tokens
	buf     []byte
	// used is how much of buf the record of an accepted credential takes.
	used int
	// lookups counts what was asked, hash is the last of it.
	lookups int
	hash    contract.Hash
	// credential says that a plugin has accepted a credential.
	credential bool
	// issuing says that the path is an endpoint of the chain's oauth2 plugin that
	// the other plugins guard.
	issuing bool
	// body is what is in the body, once it has been read.
	body *bodyParams
}

// room is where the next record, or text to be hashed, goes.
func (d *decision) room() []byte { return d.buf[d.used:] }
