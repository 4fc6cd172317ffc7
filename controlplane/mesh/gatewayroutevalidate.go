package mesh

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/reserved"
)

const (
	maxGatewayRules     = 1024
	maxGatewayMatches   = 64
	maxGatewayHostnames = 256
	// maxGatewayParts bounds the matches of all rules of a route, and their backends.
	maxGatewayParts = 4096
	// maxGatewayText bounds names, paths and what is matched, in bytes, and maxHeaderValue what a
	// header is set to. All are copied to every host that a route is for.
	maxGatewayText  = 1024
	maxHeaderValue  = 8192
	textNotAbsolute = "must be an absolute path"
	textNotExact    = `a backend is named by its tags: "*" names none`
	textPathMark    = "must be a path without query and fragment"
	textPathNormal  = "must be a path as it is compared: without empty segments, . and .."
	textNoAnswer    = "no route answers requests with this method"
	textWeightSum   = "the weights of all backends together must be below 4294967296"
)

func tooMany(most string) string { return "must not have more than " + most + " elements" }

func (r *MeshGatewayRoute) validate() []fault.Violation {
	var vs violations
	vs.join(ValidateSelectors("selectors", r.Selectors, SelectService))
	if r.Conf == nil || r.Conf.TCP == nil && r.Conf.HTTP == nil {
		vs.add("conf", textEmpty)
		return vs
	}
	if t := r.Conf.TCP; t != nil {
		vs.rules("conf.tcp.rules", len(t.Rules))
		backends := 0
		for i := range min(len(t.Rules), maxGatewayRules) {
			vs.backends(indexed("conf.tcp.rules", i)+".backends", t.Rules[i].Backends)
			backends += len(t.Rules[i].Backends)
		}
		vs.parts("conf.tcp.rules", 0, backends)
	}
	if h := r.Conf.HTTP; h != nil {
		if len(h.Hostnames) > maxGatewayHostnames {
			vs.add("conf.http.hostnames", tooMany("256"))
			return vs
		}
		for i, host := range h.Hostnames {
			if at := indexed("conf.http.hostnames", i); host == "" {
				vs.add(at, textEmpty)
			} else {
				vs.wildcardHost(at, host)
			}
		}
		vs.rules("conf.http.rules", len(h.Rules))
		matches, destinations := 0, 0
		for i := range min(len(h.Rules), maxGatewayRules) {
			vs.gatewayRule(indexed("conf.http.rules", i), &h.Rules[i])
			matches += len(h.Rules[i].Matches)
			destinations += len(h.Rules[i].Backends) + len(h.Rules[i].Filters)
		}
		vs.parts("conf.http.rules", matches, destinations)
	}
	return vs
}

// parts bounds what all rules of a route have together.
func (vs *violations) parts(path string, matches, destinations int) {
	if matches > maxGatewayParts {
		vs.add(path, "must not have more than "+strconv.Itoa(maxGatewayParts)+" matches together")
	}
	if destinations > maxGatewayParts {
		vs.add(path, "must not have more than "+strconv.Itoa(maxGatewayParts)+" backends and filters together")
	}
}

func (vs *violations) rules(path string, n int) {
	switch {
	case n == 0:
		vs.add(path, textEmpty)
	case n > maxGatewayRules:
		vs.add(path, tooMany("1024"))
	}
}

func (vs *violations) gatewayRule(path string, r *HTTPGatewayRule) {
	switch n := len(r.Matches); {
	case n == 0:
		vs.add(path+".matches", textEmpty)
	case n > maxGatewayMatches:
		vs.add(path+".matches", tooMany("64"))
		return
	}
	prefixed := len(r.Matches) > 0
	for i := range r.Matches {
		m := &r.Matches[i]
		prefixed = prefixed && m.Path != nil && m.Path.Kind() == MatchPrefix
		vs.gatewayMatch(indexed(path+".matches", i), m)
	}
	redirects := vs.gatewayFilters(path+".filters", r.Filters, prefixed)
	switch {
	case redirects && len(r.Backends) > 0:
		vs.add(path+".backends", "must be empty when using redirect filters")
	case !redirects:
		vs.backends(path+".backends", r.Backends)
	}
}

func (vs *violations) gatewayMatch(path string, m *GatewayMatch) {
	if m.Path == nil && m.Method == "" && len(m.Headers) == 0 && len(m.QueryParameters) == 0 {
		vs.add(path, textEmpty)
		return
	}
	if p := m.Path; p != nil {
		vs.gatewayPath(path+".value", p)
	}
	if m.Method == "CONNECT" || m.Method == "TRACE" {
		vs.add(path+".method", textNoAnswer)
	}
	if len(m.Headers) > maxGatewayMatches || len(m.QueryParameters) > maxGatewayMatches {
		vs.add(path, "must not have more than 64 headers or query parameters")
		return
	}
	for i := range m.Headers {
		h, at := &m.Headers[i], indexed(path+".headers", i)
		vs.headerName(at+".name", h.Name)
		if kind := h.Kind(); kind == MatchAbsent || kind == MatchPresent {
			if h.Value != "" {
				vs.add(at+".value", "cannot be set")
			}
			continue
		}
		vs.matched(at+".value", h.Value, h.Kind())
	}
	for i := range m.QueryParameters {
		q, at := &m.QueryParameters[i], indexed(path+".query_parameters", i)
		if q.Name == "" {
			vs.add(at+".name", textEmpty)
		}
		vs.bounded(at+".name", q.Name, maxGatewayText)
		vs.sent(at+".name", q.Name)
		vs.matched(at+".value", q.Value, q.Kind())
	}
}

func (vs *violations) gatewayPath(at string, p *GatewayPathMatch) {
	switch {
	case p.Kind() == MatchRegex:
		vs.matched(at, p.Value, MatchRegex)
	case !strings.HasPrefix(p.Value, "/"):
		vs.add(at, textNotAbsolute)
	case strings.ContainsAny(p.Value, "?#"):
		vs.add(at, textPathMark)
	case strings.Contains(p.Value, "//") || path.Clean(p.Value) != cmp.Or(strings.TrimSuffix(p.Value, "/"), "/"):
		vs.add(at, textPathNormal)
	default:
		vs.bounded(at, p.Value, maxGatewayText)
		vs.sent(at, p.Value)
	}
}

// bounded requires that a text has at most some bytes.
func (vs *violations) bounded(path, text string, most int) {
	if len(text) > most {
		vs.add(path, "must not have more than "+strconv.Itoa(most)+" bytes")
	}
}

// matched checks the value of a match that needs one.
func (vs *violations) matched(path, value, kind string) {
	if value == "" {
		vs.add(path, textEmpty)
		return
	}
	if kind == MatchRegex {
		if wrong := WrongExpression(value); wrong != "" {
			vs.add(path, wrong)
		}
	} else {
		vs.bounded(path, value, maxGatewayText)
	}
	vs.sent(path, value)
}

// sent requires that agents accept a text that reaches proxies as it is.
func (vs *violations) sent(path, text string) {
	if wrong := reserved.Wrong(text); wrong != "" {
		vs.add(path, wrong)
	}
}

func (vs *violations) backends(path string, bs []GatewayBackend) {
	if len(bs) == 0 {
		vs.add(path, textEmpty)
		return
	}
	if len(bs) > maxGatewayMatches {
		vs.add(path, tooMany("64"))
		return
	}
	var sum uint64
	for i := range bs {
		vs.backend(indexed(path, i), &bs[i])
		sum += uint64(bs[i].Weight)
	}
	if sum > 1<<32-1 {
		vs.add(path, textWeightSum)
	}
}

func (vs *violations) backend(path string, b *GatewayBackend) {
	at := path + ".destination"
	vs.join(ValidateMatch(at, b.Destination, SelectService))
	for _, v := range b.Destination {
		if v == AnyValue {
			vs.add(at, textNotExact)
			return
		}
	}
}
