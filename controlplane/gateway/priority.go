package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Candidate is one way in which a route can match: the route with one of its
// paths, or the route itself if it has none. Each path of a route is ranked
// individually, so a route with paths of different lengths takes several places
// in the order of a host.
type Candidate struct {
	// ID and Created are those of the route's resource.
	ID      string
	Created time.Time
	Route   *Route
	// Path is one of Route.Paths; empty if the route has none.
	Path string
}

// Candidates returns the ways in which a route can match, in the order of its
// paths and without repetitions.
func Candidates(id string, created time.Time, r *Route) []Candidate {
	if len(r.Paths) == 0 {
		return []Candidate{{ID: id, Created: created, Route: r}}
	}
	out := make([]Candidate, 0, len(r.Paths))
	for i, p := range r.Paths {
		if !slices.Contains(r.Paths[:i], p) {
			out = append(out, Candidate{ID: id, Created: created, Route: r, Path: p})
		}
	}
	return out
}

// Compare orders candidates by priority: the one that wins comes first. The
// first difference decides: more kinds of attributes; all hosts plain; more
// header names; regex paths before prefixes; higher regex_priority; longer
// prefix; older route. Ids break the tie that remains, so that the order is
// total and the same on every replica; only two equal paths of one route
// compare as equal.
func Compare(a, b Candidate) int {
	aRegex, bRegex := IsRegexPath(a.Path), IsRegexPath(b.Path)
	order := cmp.Or(
		cmp.Compare(attributes(b.Route), attributes(a.Route)),
		first(plainHosts(a.Route), plainHosts(b.Route)),
		cmp.Compare(len(b.Route.Headers), len(a.Route.Headers)),
		first(aRegex, bRegex),
	)
	if order != 0 {
		return order
	}
	if aRegex {
		order = cmp.Compare(b.Route.RegexPriority, a.Route.RegexPriority)
	} else {
		order = cmp.Compare(len(b.Path), len(a.Path))
	}
	return cmp.Or(order, a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Path, b.Path))
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// attributes counts the kinds of attributes that a route sets.
func attributes(r *Route) int {
	n := 0
	for _, set := range []bool{len(r.Methods) > 0, len(r.Hosts) > 0, len(r.Headers) > 0, len(r.Paths) > 0, len(r.SNIs) > 0} {
		if set {
			n++
		}
	}
	return n
}

// plainHosts reports whether hosts are set and none is a wildcard.
func plainHosts(r *Route) bool {
	return len(r.Hosts) > 0 && !slices.ContainsFunc(r.Hosts, isWildcard)
}

func isWildcard(host string) bool { return strings.Contains(host, "*") }

// IsRegexPath reports whether a path of a route is a regular expression.
func IsRegexPath(path string) bool { return strings.HasPrefix(path, "~") }

// Matchable reports what about a route the gateway cannot match yet, or nil. A
// route that is not matchable must be left out as a whole: to match it without
// one of its attributes would widen it.
func Matchable(r *Route) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(r.Headers) > 0 {
		add("headers cannot be matched")
	}
	if len(r.SNIs) > 0 {
		add("snis cannot be matched")
	}
	for _, h := range r.Hosts {
		switch {
		case h == "" || isWildcard(h):
			add("host %q cannot be matched: only exact names are", h)
		case hasPort(h):
			add("host %q cannot be matched: it names a port", h)
		}
	}
	for _, p := range r.Paths {
		// A question mark or a fragment is never part of a normalised path.
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#") {
			add("path %q cannot be matched: only plain prefixes are", p)
		}
	}
	for _, p := range r.Protocols {
		if p != "http" && p != "https" {
			add("protocol %q cannot be served", p)
		}
	}
	if len(r.Hosts)+len(r.Paths)+len(r.Methods)+len(r.Headers)+len(r.SNIs) == 0 {
		add("no attribute is set")
	}
	return errors.Join(errs...)
}

// hasPort reports whether a host carries a port; the colons of a bare or
// bracketed IPv6 address are none.
func hasPort(host string) bool {
	if strings.HasPrefix(host, "[") {
		return strings.Contains(host, "]:")
	}
	return strings.Count(host, ":") == 1
}

// HTTPSOnly reports whether a route refuses plain HTTP: its protocols contain
// https and not http. (A route for http alone does not refuse https.)
func HTTPSOnly(r *Route) bool {
	return slices.Contains(r.Protocols, "https") && !slices.Contains(r.Protocols, "http")
}
