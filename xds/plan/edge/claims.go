package edge

import (
	"regexp"
	"strings"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// claimed returns the condition of a route on a header by which clients tell where a request
// comes from, and which the filter writes or removes: it runs after routes are selected, and
// then still sees what any client claims. So the condition is on what the gateway sees, and on
// the header itself only where the client is trusted. ok is false for other headers.
func claimed(name string, values []string) (condition predicate, ok bool, err error) {
	var said, seen predicate
	switch name {
	case headerForwardedFor:
		// The address of the peer is all that the header has for clients that are not trusted.
		seen, err = valueOf(headerInput(headerPeer), values)
	case headerForwardedHost:
		seen, err = valueOf(hostInput, values)
	case headerForwardedPath:
		seen, err = pathOf(values)
	case headerForwardedPrefix, headerForwarded:
	default:
		return nil, false, nil
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
		some = append(some, equals(pathInput, "?", false)) // no path is that
	}
	return anyOf(some), nil
}

// not is true if a predicate is not.
func not(p predicate) predicate {
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
}
