package edge

import (
	"regexp"
	"strings"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// claimed returns the condition of a route on a header by which clients tell who they are or
// where a request comes from, and which the filter writes or removes: it runs after routes are
// selected, so a route would be selected by what any client claims. The condition is therefore
// on what the gateway sees, and on the header itself only where the client is trusted. ok is
// false for other headers.
func claimed(name string, values []string) (condition predicate, ok bool, err error) {
	var said, seen predicate
	switch name {
	case headerRealIP:
		seen, err = valueOf(headerInput(headerPeer), values)
		return seen, true, err
	case headerForwardedFor:
		// The address of the peer is all that the header has for clients that are not trusted.
		seen, err = valueOf(headerInput(headerPeer), values)
	case headerForwardedHost:
		seen, err = valueOf(hostInput, values)
	case headerForwardedPath:
		seen, err = pathOf(values)
	case headerForwardedPrefix, headerForwarded:
	default:
		// What the filter removes from every request came from the client, whoever it is.
		return noRequest(), contract.IsReserved([]byte(name), false), nil
	}
	if err != nil {
		return nil, false, err
	}
	if said, err = valueOf(headerInput(name), values); err != nil {
		return nil, false, err
	}
	said = allOf([]predicate{equals(trustedInput, isTrusted, false), said})
	switch name {
	case headerForwardedFor:
		seen = allOf([]predicate{not(equals(trustedInput, isTrusted, false)), seen})
	case headerForwardedHost, headerForwardedPath:
		// It is completed if a trusted client does not send it.
		there := allOf([]predicate{equals(trustedInput, isTrusted, false), fits(headerInput(name), `\C*`)})
		seen = allOf([]predicate{not(there), seen})
	default:
		return said, true, nil
	}
	return anyOf([]predicate{said, seen}), true, nil
}

// pathOf compares the path without its query with values of a header.
func pathOf(values []string) (predicate, error) {
	var some []predicate
	for _, v := range values {
		if !strings.HasPrefix(v, "~*") {
			if !strings.Contains(v, "?") {
				some = append(some, fits(pathInput, "(?i)"+regexp.QuoteMeta(v)+`(?:\?\C*)?`))
			}
			continue
		}
		pattern, err := gateway.ParsePathHeader(v)
		if err != nil {
			return nil, err
		}
		some = append(some, fits(pathInput, pattern))
	}
	if len(some) == 0 {
		return noRequest(), nil
	}
	return anyOf(some), nil
}

// noRequest is true of no request, because no path is that.
func noRequest() predicate { return equals(pathInput, "?", false) }

// not is true if a predicate is not.
func not(p predicate) predicate {
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
}
