package explain

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/inspect/interpret"
)

// These are the parameters of a question.
const (
	ParamSource      = "source"
	ParamDestination = "destination"
	ParamMethod      = "method"
	ParamHost        = "host"
	ParamPath        = "path"
	ParamHeader      = "header"
	ParamToken       = "token"
	ParamScheme      = "scheme"
	ParamGateway     = "gateway"
)

// HeaderToken is the header of a question that carries the token. In contrast to the parameter no
// log between client and control plane shows it.
const HeaderToken = "X-Explain-Token"

// These bound a question. Lengths are in bytes.
const (
	maxText    = 253
	maxPath    = 4 << 10
	maxHeaders = 32
	maxHeader  = 4 << 10
	// maxAllHeaders is well below what proxies take at the least.
	maxAllHeaders = 32 << 10
)

// Question is a request to imagine.
type Question struct {
	// Source and Destination are for meshes.
	Source, Destination string
	Method, Host, Path  string
	Headers             []interpret.Header
	Token               string
	// Scheme and Gateway are for gateways.
	Scheme, Gateway string
}

// own are headers that proxies write themselves, or that tell them how to treat a connection. A
// request that has them cannot be imagined.
var own = []string{
	"connection", "upgrade", "te", "transfer-encoding", "content-length", "host", "expect", "keep-alive", "proxy-connection", "trailer",
	"http2-settings", "via", "x-request-id", "x-mesh-tags",
}

// prefixes begin the names of more such headers.
var prefixes = []string{"x-forwarded-", "x-envoy-", "x_envoy", "x-meshgate", "x_meshgate"}

// Read reads a question from a query and the header with the token. Parameters that allowed does
// not list, and those that are given twice, are violations; header may be given often. The error
// is an Invalid fault with the names of parameters.
func Read(query url.Values, header string, allowed ...string) (q Question, err error) {
	r := reading{query: query, allowed: allowed}
	r.known()
	q.Source, q.Destination = r.text(ParamSource, "", maxText), r.text(ParamDestination, "", maxText)
	q.Scheme, q.Gateway = r.text(ParamScheme, "http", 8), r.text(ParamGateway, "", 4*maxText)
	q.Method = r.text(ParamMethod, "GET", 32)
	q.Path, q.Host = r.text(ParamPath, "/", maxPath), r.text(ParamHost, "", maxText)
	if q.Token = r.text(ParamToken, "", contract.MaxCredential); header != "" {
		if q.Token != "" {
			r.violate(ParamToken, "must not be given in the query and in "+HeaderToken)
		}
		q.Token = header
	}
	q.Headers = r.headers()
	r.check(&q)
	if len(r.violations) > 0 {
		return q, fault.Violated(r.violations)
	}
	return q, nil
}

// reading collects the violations of a query.
type reading struct {
	query      url.Values
	allowed    []string
	violations []fault.Violation
}

func (r *reading) violate(param, message string) {
	r.violations = append(r.violations, fault.Violation{Path: param, Message: message})
}

func (r *reading) known() {
	for param := range r.query {
		if !slices.Contains(r.allowed, param) {
			r.violate(param, "is not a parameter")
		}
	}
	slices.SortFunc(r.violations, func(a, b fault.Violation) int { return strings.Compare(a.Path, b.Path) })
}

func (r *reading) text(param, otherwise string, most int) string {
	values := r.query[param]
	switch {
	case len(values) > 1:
		r.violate(param, "must be given once")
	case len(values) == 0 || values[0] == "":
		return otherwise
	case len(values[0]) > most:
		r.violate(param, "is too long")
		return otherwise
	}
	return values[0]
}

func (r *reading) headers() (out []interpret.Header) {
	values, sum := r.query[ParamHeader], 0
	if len(values) > maxHeaders {
		r.violate(ParamHeader, "is given too often")
		return nil
	}
	for _, text := range values {
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case len(text) > maxHeader:
			r.violate(ParamHeader, "is too long")
		case !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			r.violate(ParamHeader, "must be name:value")
		case slices.Contains(own, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
			r.violate(ParamHeader, "must not be "+name+", which proxies treat specially")
		case name == "content-type" && strings.HasPrefix(strings.ToLower(value), "application/grpc"):
			r.violate(ParamHeader, "must not say that the request is gRPC, whose refusals have a status of their own")
		default:
			out = append(out, interpret.Header{Name: name, Value: value})
			sum += len(name) + len(value)
		}
	}
	if sum > maxAllHeaders {
		r.violate(ParamHeader, "have more together than proxies take")
	}
	return out
}

// methods are those that every proxy takes.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// check checks what can be imagined, and fills in the token.
func (r *reading) check(q *Question) {
	if !slices.Contains(methods, q.Method) {
		r.violate(ParamMethod, "must be one of "+strings.Join(methods, ", "))
	}
	if q.Scheme != "http" && q.Scheme != "https" {
		r.violate(ParamScheme, "must be http or https")
	}
	visible := func(c rune) bool { return c <= ' ' || c > '~' }
	if !strings.HasPrefix(q.Path, "/") || strings.ContainsFunc(q.Path, visible) || strings.Contains(q.Path, "#") {
		r.violate(ParamPath, "must begin with / and have only visible ASCII characters, without #")
	}
	for _, p := range []struct{ param, value string }{{ParamHost, q.Host}, {ParamSource, q.Source}, {ParamDestination, q.Destination}} {
		if strings.ContainsFunc(p.value, visible) || strings.ContainsAny(p.value, "/?#@") {
			r.violate(p.param, "must be a name or an address")
		}
	}
	if q.Token == "" {
		return
	}
	if strings.ContainsFunc(q.Token, visible) || len(q.Token) > contract.MaxCredential {
		r.violate(ParamToken, "must have only visible ASCII characters, and not too many of them")
		return
	}
	if slices.ContainsFunc(q.Headers, func(h interpret.Header) bool { return h.Name == "authorization" }) {
		r.violate(ParamToken, "must not be given beside a header authorization")
	}
	q.Headers = append(q.Headers, interpret.Header{Name: "authorization", Value: "Bearer " + q.Token})
}

// shownPath is the path in the answer. A query may have a credential, so of one it is only said
// that there was one.
func (q *Question) shownPath() string {
	path, _, query := strings.Cut(q.Path, "?")
	if query {
		path += "?..."
	}
	return path
}

// request is the imagined request as it leaves the client.
func (q *Question) request(host, scheme string) *interpret.Request {
	return &interpret.Request{Method: q.Method, Scheme: scheme, Host: host, Path: q.Path, Headers: slices.Clone(q.Headers)}
}
