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

	headers := Received(c)
	buf := make([]byte, engine.BufferSize)
	req := &engine.Request{Path: []byte(Normalise(c.Request.Path)), HTTP2: c.Request.HTTP2}
	if c.Request.Body == "" {
		req.BodyState = engine.BodyRead
	}
	verdict, err := s.decide(program, c, req, headers, buf)
	if err != nil {
		return nil, err
	}
	if verdict.Action == engine.Refuse {
		return refused(verdict.Refusal, engine.IsGRPC([]byte(headers.Get("content-type")))), nil
	}
	o := &Observed{Outcome: Proxied, Status: http.StatusOK}
	path, body := program.Rewrite(&verdict, req.Path, []byte(headers.Get("content-type")), []byte(c.Request.Body))
	o.Path, o.Sent = string(path), string(body)
	maps.DeleteFunc(headers, func(name string, _ []string) bool {
		return contract.IsReserved([]byte(strings.ToLower(name)), verdict.Action == engine.Issue)
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

// decide settles a case with a first level that knows its tokens or, if the stream is
// cold, none.
func (s *Stream) decide(p *engine.Program, c *Case, req *engine.Request, h http.Header, buf []byte) (engine.Verdict, error) {
	m := &message{headers: h, body: []byte(c.Request.Body), authority: NewTokens(contract.Unknown, c.Tokens...)}
	if c.Down {
		m.authority = NewTokens(contract.Unavailable)
	}
	level := m.authority
	if s.Cold {
		level = NewTokens(contract.Miss)
	}
	v, err := p.Settle(req, level, m, buf)
	return v, errors.Join(err, m.err)
}

// message is the request of a case, for a decision.
type message struct {
	headers   http.Header
	body      []byte
	authority *Tokens
	err       error
}

// Headers implements [engine.Reader].
func (m *message) Headers(names []string) (values [][]byte, repeated uint32) {
	values = make([][]byte, len(names))
	for i, n := range names {
		lines := m.headers.Values(n)
		if n == ":method" {
			lines = m.headers[n]
		}
		if len(lines) > 0 {
			values[i] = append([]byte{}, lines[0]...)
		}
		if len(lines) > 1 {
			repeated |= 1 << i
		}
	}
	return values, repeated
}

// Body implements [engine.Reader].
func (m *message) Body() (engine.BodyState, []byte) { return engine.BodyRead, m.body }

// Resolve implements [engine.Reader].
func (m *message) Resolve(hash contract.Hash, plugin string) engine.Found {
	if plugin != PluginID && plugin != KeyPluginID {
		m.err = errors.New("the look-up names plugin " + plugin)
	}
	packed := make([]byte, contract.MaxPacked)
	n, answer := m.authority.Lookup(hash, packed)
	return engine.Found{Answer: answer, Packed: packed[:n]}
}

// Received is what Envoy makes of a request: lines of an inline header are joined
// by a comma.
func Received(c *Case) http.Header {
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
