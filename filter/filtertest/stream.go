package filtertest

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// ClientAddress is the peer that [Stream] shows to the OAuth server.
const ClientAddress = "198.51.100.7"

// Stream runs cases the way an adapter does, with headers in maps in the place
// of Envoy. It is the reference for adapters.
type Stream struct {
	// Cold starts with an empty first level, so that every token takes the way
	// over the deeper ones.
	Cold bool
	// Interner compiles the chains.
	Interner *engine.Interner
}

// Run sends the request of a case.
func (s *Stream) Run(c *Case) (*Observed, error) {
	ref := s.Interner.Acquire([]byte(c.Chain))
	defer ref.Release()
	program := ref.Program()

	headers := received(c)
	buf := make([]byte, engine.BufferSize)
	req := &engine.Request{Path: []byte(normalise(c.Request.Path)), HTTP2: c.Request.HTTP2}
	if c.Request.Body == "" {
		req.BodyState = engine.BodyRead
	}
	read(req, program.Headers()[:program.Early()], headers)
	verdict, err := s.decide(program, c, req, headers, buf)
	if err != nil {
		return nil, err
	}
	if verdict.Action == engine.Refuse {
		return refused(verdict.Refusal, isGRPC(headers)), nil
	}
	o := &Observed{Outcome: Proxied, Status: http.StatusOK}
	path, body := program.Rewrite(&verdict, req.Path, []byte(headers.Get("content-type")), []byte(c.Request.Body))
	o.Path, o.Sent = string(path), string(body)
	maps.DeleteFunc(headers, func(name string, _ []string) bool {
		return engine.Spoofs([]byte(strings.ToLower(name)), verdict.Action == engine.Issue)
	})
	for i, name := range program.Headers() {
		if verdict.Remove>>i&1 != 0 {
			headers.Del(name)
		}
	}
	delete(headers, ":method")
	o.Upstream = headers
	if verdict.Action == engine.Issue {
		for _, e := range program.HandOver(&verdict, "http", ClientAddress+":4711") {
			set(headers, e.Name, e.Value)
		}
		o.Outcome = Issued
		return o, nil
	}
	for i, span := range verdict.Headers {
		set(headers, contract.IdentityHeaders[i], string(buf[span.Off:span.Off+span.Len]))
	}
	return o, nil
}

// maxRounds is how often a decision may ask for more: headers, body and two
// look-ups, with headers asked for anew after each.
const maxRounds = 8

// decide asks the first level, and gives the decision what it asks for.
func (s *Stream) decide(p *engine.Program, c *Case, req *engine.Request, h http.Header, buf []byte) (engine.Verdict, error) {
	authority := NewTokens(contract.Unknown, c.Tokens...)
	if c.Down {
		authority = NewTokens(contract.Unavailable)
	}
	level := &asked{level: authority, authority: authority, known: map[contract.Hash]bool{}}
	if s.Cold {
		level.level = NewTokens(contract.Miss)
	}
	for range maxRounds {
		v := p.Decide(req, level, buf)
		switch v.Action {
		case engine.NeedHeaders:
			if len(req.Headers) == len(p.Headers()) {
				return v, errors.New("headers that are there are needed")
			}
			read(req, p.Headers(), h)
		case engine.NeedBody:
			if req.BodyState != engine.BodyUnread || !p.BodyAfterLookup() && len(level.known) > 0 {
				return v, errors.New("a body is needed that cannot be had")
			}
			req.BodyState, req.Body = engine.BodyRead, []byte(c.Request.Body)
			if len(req.Body) > engine.MaxBody {
				req.BodyState, req.Body = engine.BodyTooLarge, nil
			}
		case engine.Lookup:
			if v.Plugin != PluginID && v.Plugin != KeyPluginID || level.known[v.Hash] {
				return v, errors.New("the look-up names plugin " + v.Plugin + ", or is not the first for its token")
			}
			level.known[v.Hash] = true
		default:
			return v, nil
		}
	}
	return engine.Verdict{}, errors.New("the decision does not end")
}

// asked is a first level beside the answers that a request has been given.
type asked struct {
	level, authority *Tokens
	known            map[contract.Hash]bool
}

// Lookup implements engine.Tokens.
func (a *asked) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if a.known[hash] {
		return a.authority.Lookup(hash, dst)
	}
	return a.level.Lookup(hash, dst)
}

// read shows headers to a decision.
func read(req *engine.Request, names []string, h http.Header) {
	req.Headers, req.Repeated = make([][]byte, len(names)), 0
	for i, n := range names {
		values := h.Values(n)
		if n == ":method" {
			values = h[n]
		}
		if len(values) > 0 {
			req.Headers[i] = append([]byte{}, values[0]...)
		}
		if len(values) > 1 {
			req.Repeated |= 1 << i
		}
	}
}

// received is what Envoy makes of a request: lines of an inline header are joined
// by a comma.
func received(c *Case) http.Header {
	h := http.Header{}
	for _, l := range c.Request.Headers {
		if old := h.Get(l[0]); strings.EqualFold(l[0], "authorization") && old != "" {
			h.Set(l[0], old+","+l[1])
			continue
		}
		h.Add(l[0], l[1])
	}
	if c.Request.Body != "" && !c.Request.Chunked && !c.Request.Trailers {
		h.Set("content-length", strconv.Itoa(len(c.Request.Body)))
	}
	method := c.Request.Method
	if method == "" {
		method = http.MethodGet
	}
	h[":method"] = []string{method}
	return h
}

// set mirrors Envoy, where an empty value removes the header.
func set(h http.Header, name, value string) {
	if value == "" {
		h.Del(name)
		return
	}
	h.Set(name, value)
}

func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("content-type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

func refused(r *engine.Refusal, grpc bool) *Observed {
	o := &Observed{Outcome: Refused, Status: r.Status, Header: http.Header{}, Body: r.Body}
	for _, h := range r.Headers {
		o.Header.Add(h[0], h[1])
	}
	if grpc {
		o.Body = ""
		o.Header.Set("grpc-status", strconv.Itoa(r.GRPCStatus))
		o.Header.Set("grpc-message", r.GRPCMessage())
	}
	return o
}
