package edge

import (
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// These are the pieces of dotSegment. Envoy has normalised the path: it has resolved plain
// ".." segments and has unescaped unreserved characters that were escaped once. What remains
// are forms that servers interpret differently.
const (
	percent = `%(?:25)*`           // escaped any number of times
	escaped = percent + `(?:u00)?` // some servers also read %u002e
	// low and high begin overlong encodings of characters below 0x40 and below 0x80. A lax
	// decoder reads them (RFC 3629 section 10).
	low  = percent + `(?:c0|(?:e0|f0` + more + `|f8` + more + more + `|fc` + more + more + more + `)` + more + `)` + percent
	high = percent + `(?:c1|(?:e0|f0` + more + `|f8` + more + more + `|fc` + more + more + more + `)` + percent + `81)` + percent
	more = percent + `80`

	hidden = `(?:` + escaped + `2e|` + low + `ae)`
	dot    = `(?:\.|` + hidden + `)`
	dotted = `(?:` + hidden + dot + `|` + dot + hidden + `)` // two, not both plain
	slash  = `(?:` + escaped + `(?:2f|5c)|` + low + `af|` + high + `9c)`
	// ending ends a segment for some servers but not for Envoy.
	ending = `(?:[;\\]|` + slash + `|` + escaped + `(?:3b|3f|23|00)|` + low + `(?:bb|bf|a3|80))`
	rest   = `(?:[/?]\C*)?`
)

// dotSegment matches a path, query included, in which some server could read a segment ".."
// that Envoy does not read: a server that decodes the path once more, splits it at an escaped
// slash, or drops path parameters. Such a path may leave the path of its service, or reach a
// path that another route guards. Dots at the end of a longer segment count, too, because the
// text before them may be a prefix that is stripped.
const dotSegment = `(?i)[^?]*(?:` + dot + dot + ending + `\C*|` + slash + dot + dot + rest + `|` + dotted + rest + `)`

// guards returns the branches that come first in every virtual host with routes. They refuse
// requests that no route may get, whatever it demands. TRACE shows a client what proxies have
// added to its request, including credentials (RFC 9110 section 9.3.8). CONNECT needs no
// guard: it has no path, so no route matches it.
func guards(how adapter, forwardDots bool) ([]branch, error) {
	trace := reply(405, `{"message":"Method not allowed"}`)
	trace.ResponseHeadersToAdd = append(trace.ResponseHeadersToAdd, overwrite("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))
	refused := reply(400, `{"message":"The path has a dot segment that is escaped or ambiguous"}`)
	var out []branch
	for _, g := range []struct {
		when  predicate
		then  *routev3.Route
		why   contract.Reason
		needs bool
	}{
		{equals(methodInput, "TRACE", true), trace, contract.ReasonMethod, true},
		{allOf([]predicate{suspicious(), fits(pathInput, dotSegment)}), refused, contract.ReasonPath, !forwardDots},
	} {
		if !g.needs {
			continue
		}
		g.then.Match = everyPath()
		then, err := leadTo(how, about(g.then, contract.Refused, g.why, nil))
		if err != nil {
			return nil, err
		}
		out = append(out, branch{g.when, then})
	}
	return out, nil
}

// dotMarks are texts of which every path that matches dotSegment contains at least one, in any
// case.
var dotMarks = []string{"..", "%25", "%c0%ae", "%80%ae", "%u00"}

// suspicious looks for the marks. This is cheaper than a regular expression, and they are
// rare.
func suspicious() predicate {
	marks := make([]predicate, len(dotMarks))
	for i, text := range dotMarks {
		marks[i] = compare(pathInput, &xdsmatcherv3.StringMatcher{
			MatchPattern: &xdsmatcherv3.StringMatcher_Contains{Contains: text}, IgnoreCase: true,
		})
	}
	return anyOf(marks)
}

// everyPath matches all requests.
func everyPath() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}}
}
