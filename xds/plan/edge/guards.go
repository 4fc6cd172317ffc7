package edge

import (
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// Pieces of dotSegment. Envoy has normalised the path: a plain ".." segment is
// resolved, and what is escaped once and unreserved is not escaped any more. What
// is left is what servers differ about.
const (
	percent = `%(?:25)*`           // escaped any number of times
	escaped = percent + `(?:u00)?` // some servers read %u002e, too
	// low and high begin characters below 0x40 and below 0x80 that are written in
	// more bytes than they need; a lax decoder reads them (RFC 3629 section 10).
	low  = percent + `(?:c0|(?:e0|f0` + more + `|f8` + more + more + `|fc` + more + more + more + `)` + more + `)` + percent
	high = percent + `(?:c1|(?:e0|f0` + more + `|f8` + more + more + `|fc` + more + more + more + `)` + percent + `81)` + percent
	more = percent + `80`

	hidden = `(?:` + escaped + `2e|` + low + `ae)`
	dot    = `(?:\.|` + hidden + `)`
	dotted = `(?:` + hidden + dot + `|` + dot + hidden + `)` // two, not both plain
	slash  = `(?:` + escaped + `(?:2f|5c)|` + low + `af|` + high + `9c)`
	// ending is what ends a segment for some servers, and not for Envoy.
	ending = `(?:[;\\]|` + slash + `|` + escaped + `(?:3b|3f|23|00)|` + low + `(?:bb|bf|a3|80))`
	rest   = `(?:[/?]\C*)?`
)

// dotSegment fits a path, query included, in which a server that decodes it once
// more, splits it at an escaped slash or drops path parameters could read a
// segment ".." that Envoy does not. Such a path may lead out of the path of its
// service, or to what another route guards. Dots at the end of a longer segment
// count, too: what stands before them may be the prefix that is stripped.
const dotSegment = `(?i)[^?]*(?:` + dot + dot + ending + `\C*|` + slash + dot + dot + rest + `|` + dotted + rest + `)`

// guards come first in every virtual host with routes: what no route gets,
// whatever it demands. TRACE shows a client what proxies have added to its
// request, credentials among it (RFC 9110 section 9.3.8); CONNECT has no path, so
// that no route matches it.
func guards(forwardDots bool) ([]branch, error) {
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
		then, err := leadTo([]*routev3.Route{about(g.then, contract.Refused, g.why, nil)})
		if err != nil {
			return nil, err
		}
		out = append(out, branch{g.when, then})
	}
	return out, nil
}

// dotMarks are the texts of which every path that fits dotSegment has one, in any
// case.
var dotMarks = []string{"..", "%25", "%c0%ae", "%80%ae", "%u00"}

// suspicious looks for the marks: cheaper than an expression, and rarely there.
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
