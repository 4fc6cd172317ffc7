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

	headers := received(c.Request.Headers)
	buf := make([]byte, engine.BufferSize)
	req := &engine.Request{Path: []byte(normalise(c.Request.Path))}
	if values := headers.Values(program.Header()); len(values) != 0 {
		req.Credential, req.HasCredential = []byte(values[0]), true
	}
	verdict, err := s.decide(program, c, req, buf)
	if err != nil {
		return nil, err
	}
	if verdict.Action == engine.Refuse {
		return refused(verdict.Refusal, isGRPC(headers)), nil
	}
	maps.DeleteFunc(headers, func(name string, _ []string) bool {
		return engine.Spoofs([]byte(strings.ToLower(name)))
	})
	if verdict.Action == engine.Issue {
		for _, e := range program.HandOver(&verdict, "http", ClientAddress+":4711") {
			set(headers, e.Name, e.Value)
		}
		return &Observed{Outcome: Issued, Status: http.StatusOK, Upstream: headers}, nil
	}
	if verdict.RemoveCredential {
		headers.Del(program.Header())
	}
	for i, span := range verdict.Headers {
		set(headers, contract.IdentityHeaders[i], string(buf[span.Off:span.Off+span.Len]))
	}
	return &Observed{Outcome: Proxied, Status: http.StatusOK, Upstream: headers}, nil
}

// decide asks the first level, and the authority if that does not know.
func (s *Stream) decide(p *engine.Program, c *Case, req *engine.Request, buf []byte) (engine.Verdict, error) {
	authority := NewTokens(contract.Unknown, c.Tokens...)
	if c.Down {
		authority = NewTokens(contract.Unavailable)
	}
	first := authority
	if s.Cold {
		first = NewTokens(contract.Miss)
	}
	v := p.Decide(req, first, buf)
	if v.Action == engine.Lookup {
		if v.Plugin != PluginID {
			return v, errors.New("the look-up names plugin " + v.Plugin)
		}
		v = p.Decide(req, authority, buf)
	}
	if v.Action == engine.Lookup {
		return v, errors.New("the authority's answer was not enough for a decision")
	}
	return v, nil
}

// received is what Envoy makes of header lines: lines of an inline header are
// joined by a comma.
func received(lines [][2]string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		if old := h.Get(l[0]); strings.EqualFold(l[0], "authorization") && old != "" {
			h.Set(l[0], old+","+l[1])
			continue
		}
		h.Add(l[0], l[1])
	}
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
	return strings.HasPrefix(h.Get("content-type"), "application/grpc")
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
