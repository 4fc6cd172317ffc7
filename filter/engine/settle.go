package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxRounds bounds how often a decision may ask for more: for headers, for the body, for two
// look-ups, and for headers again after each of them.
const maxRounds = 8

var (
	errHeadersTwice = errors.New("the decision asks for headers that it has")
	errBodyTwice    = errors.New("the decision asks for a body that it cannot have")
	errEndless      = errors.New("the decision does not end")
)

// Reader reads the parts of a request that a decision asks for.
type Reader interface {
	// Headers returns the first values of headers, and which of them were sent more than
	// once, in the form of Request.Headers and Request.Repeated.
	Headers(names []string) (values [][]byte, repeated uint32)
	// Body returns the whole body, or BodyTooLarge. It is called at most once.
	Body() (BodyState, []byte)
	// Resolve asks the deeper levels of the token cache for a token and waits for the
	// answer. plugin is the id of the plugin that asks.
	Resolve(hash contract.Hash, plugin string) Found
}

// Settle decides a request and gives the decision everything that it asks for. req holds the
// path, the protocol and the state of the body; Settle reads the rest. The verdict is
// Refuse, Continue or Issue. An error means that the decision does not follow its own rules.
// The request must then be refused.
//
// Settle is for adapters that may wait. The front of the dynamic module takes the same steps
// between calls of Envoy.
func (p *Program) Settle(req *Request, level Tokens, r Reader, buf []byte) (Verdict, error) {
	beside := Beside{Level: level}
	req.Headers, req.Repeated = r.Headers(p.Headers()[:p.Early()])
	for range maxRounds {
		v := p.Decide(req, &beside, buf)
		var err error
		switch v.Action {
		case NeedHeaders:
			err = p.moreHeaders(req, r)
		case NeedBody:
			err = p.readBody(req, r, len(beside.Known) > 0)
		case Lookup:
			err = beside.ask(&v, r)
		default:
			return v, nil
		}
		if err != nil {
			return Verdict{}, err
		}
	}
	return Verdict{}, errEndless
}

func (p *Program) moreHeaders(req *Request, r Reader) error {
	if len(req.Headers) == len(p.Headers()) {
		return errHeadersTwice
	}
	req.Headers, req.Repeated = r.Headers(p.Headers())
	return nil
}

func (p *Program) readBody(req *Request, r Reader, looked bool) error {
	if req.BodyState != BodyUnread || looked && !p.BodyAfterLookup() {
		return errBodyTwice
	}
	if req.BodyState, req.Body = r.Body(); len(req.Body) > MaxBody {
		req.BodyState, req.Body = BodyTooLarge, nil
	}
	return nil
}

func (b *Beside) ask(v *Verdict, r Reader) error {
	for i := range b.Known {
		if b.Known[i].Hash == v.Hash {
			return fmt.Errorf("plugin %s asks for a token that was looked up", v.Plugin)
		}
	}
	f := r.Resolve(v.Hash, v.Plugin)
	f.Hash = v.Hash
	b.Known = append(b.Known, f)
	return nil
}
