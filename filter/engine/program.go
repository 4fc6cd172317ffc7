package engine

import "github.com/meshgate/meshgate/filter/contract"

// BufferSize is the smallest buffer in bytes that [Program.Decide] works with:
// the largest packed record fits, and so does every anonymous consumer.
const BufferSize = contract.MaxPacked

// Program is one compiled chain. It is immutable and shared by every request of
// the routes that carry the chain.
type Program struct {
	header  string
	service string
	// steps run in the order of the chain's plugins. A further kind of plugin is
	// a further member of step.
	steps []step
	// broken refuses every request; the other fields are then empty.
	broken *Refusal
	fault  string
}

// step is one plugin of a chain. Exactly one member is set. It is a struct and
// not an interface, because arguments of interface calls escape to the heap.
type step struct {
	oauth2 *oauth2Step
}

// Broken returns a program that refuses every request with 503. It stands for a
// chain that cannot be used: refusing a route is an error somebody sees, letting
// it through is one that nobody sees. The reason is for logs; clients get a
// constant text, because the cause may quote configuration.
func Broken(reason string) *Program {
	return &Program{broken: refuseBroken, fault: reason}
}

// Fault returns why the program refuses everything, or "" if it does not.
func (p *Program) Fault() string { return p.fault }

// Header returns the lower-case name of the header that [Request.Credential] is
// read from; "" if the program reads none.
func (p *Program) Header() string { return p.header }

// Decide runs the chain on one request. The packed record found by tokens, or
// the anonymous consumer, is left in buf; the spans of the verdict point into
// it, so buf must stay untouched until they have been used. A buf shorter than
// [BufferSize] refuses with 503.
func (p *Program) Decide(req *Request, tokens Tokens, buf []byte) (v Verdict) {
	if p.broken != nil {
		v.Refusal = p.broken
		return v
	}
	if len(buf) < BufferSize {
		v.Refusal = refuseUnusable
		return v
	}
	d := decision{tokens: tokens, buf: buf, service: p.service, issuing: issuing(req.Path)}
	for i := range p.steps {
		if done := p.steps[i].oauth2.run(req, &d, &v); done {
			return v
		}
	}
	v.Action = Continue
	return v
}

// decision is what the steps of one chain share while they run. The request is
// not in it: what it holds is handed to an interface, and all of that escapes.
type decision struct {
	tokens  Tokens
	buf     []byte
	service string
	// issuing says that the path is an issuing endpoint of the chain's oauth2
	// plugin; steps before that plugin still have to let the request pass.
	issuing bool
}
