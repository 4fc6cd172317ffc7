package filtertest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// Observed is what came of a request.
type Observed struct {
	Outcome Outcome
	// Status, Header and Body are the answer as the client saw it.
	Status int
	Header http.Header
	Body   string
	// Upstream holds the request headers as the upstream or the OAuth server saw
	// them; nil if neither got the request.
	Upstream http.Header
	// Path and Sent are the path, query included, and the body as they saw them.
	Path string
	Sent string
}

// Check compares what came of the case's request with what had to. It returns
// one line per difference, none if all is well.
func (c *Case) Check(o *Observed) []string {
	var d differences
	if o.Outcome != c.Want.Outcome {
		d.add("the request was %v, want %v (status %d, body %q)", o.Outcome, c.Want.Outcome, o.Status, o.Body)
		return d
	}
	if c.Want.Outcome == Refused {
		c.checkAnswer(o, &d)
		return d
	}
	c.checkUpstream(o, &d)
	return d
}

type differences []string

func (d *differences) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// exactly demands one value of a header.
func (d *differences) exactly(where string, h http.Header, name, value string) {
	if got := h.Values(name); len(got) != 1 || got[0] != value {
		d.add("%s header %s is %q, want %q", where, name, got, value)
	}
}

func (c *Case) checkAnswer(o *Observed, d *differences) {
	if o.Upstream != nil {
		d.add("a refused request was sent upstream with %v", o.Upstream)
	}
	for _, h := range c.Want.Headers {
		d.exactly("answer", o.Header, h[0], h[1])
	}
	for _, name := range c.Want.NoHeaders {
		if got := o.Header.Values(name); len(got) != 0 {
			d.add("answer has header %s: %q", name, got)
		}
	}
	if c.Want.GRPCStatus != "" {
		d.exactly("answer", o.Header, "grpc-status", c.Want.GRPCStatus)
		d.exactly("answer", o.Header, "grpc-message", c.Want.GRPCMessage)
		return
	}
	if o.Status != c.Want.Status {
		d.add("status is %d, want %d", o.Status, c.Want.Status)
	}
	if o.Body != c.Want.Body {
		d.add("body is %q, want %q", o.Body, c.Want.Body)
	}
	if got := o.Header.Values("grpc-status"); len(got) != 0 {
		d.add("answer to a client without gRPC has grpc-status %q", got)
	}
}

func (c *Case) checkUpstream(o *Observed, d *differences) {
	path, sent := c.Want.Path, c.Want.Sent
	if path == "" {
		path = Normalise(c.Request.Path)
	}
	switch sent {
	case "":
		sent = c.Request.Body
	case Nothing:
		sent = ""
	}
	if o.Path != path {
		d.add("upstream got path %q, want %q", o.Path, path)
	}
	if o.Sent != sent {
		d.add("upstream got body %.200q, want %.200q", o.Sent, sent)
	}
	for _, h := range c.Want.Upstream {
		d.exactly("upstream", o.Upstream, h[0], h[1])
	}
	for _, name := range c.Want.NoUpstream {
		if got := o.Upstream.Values(name); len(got) != 0 {
			d.add("upstream got header %s: %q", name, got)
		}
	}
	for name, values := range o.Upstream {
		lower := strings.ToLower(name)
		if !contract.IsReserved([]byte(lower), false) || c.listed(lower) {
			continue
		}
		if c.Want.Outcome == Issued && ownClient(lower, values) {
			continue
		}
		d.add("upstream got header %s: %q", lower, values)
	}
}

func (c *Case) listed(name string) bool {
	return slices.ContainsFunc(c.Want.Upstream, func(h [2]string) bool { return h[0] == name })
}

// ownClient holds for a client address that did not come from a case: that of
// the connection is not known to the table.
func ownClient(name string, values []string) bool {
	if name != contract.HeaderOAuthClient || len(values) != 1 {
		return false
	}
	a, err := netip.ParseAddr(values[0])
	return err == nil && a != netip.MustParseAddr(spoofedClient)
}
