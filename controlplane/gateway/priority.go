package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Candidate is one way in which a route can match: the route with one of its paths, or the
// route alone if it has none. Each path is ranked individually, so a route with paths of
// different lengths has several places in the order of a host.
type Candidate struct {
	// ID and Created are those of the route's resource.
	ID      string
	Created time.Time
	Route   *Route
	// Path is one of Route.Paths; empty if the route has none.
	Path string
	// Metadata is set for the authorisation server metadata of the route (RFC 8414 section
	// 3). Path is then the path of the metadata. It and all paths below it match, by any
	// method. The candidate ranks as the route does.
	Metadata bool
}

// Candidates returns the ways in which a route can match, in the order of its paths and
// without repetitions.
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

// metadataPath is the beginning of the well-known URI of an authorisation server's metadata.
// The path of the issuer follows it. Source: RFC 8414 sections 3 and 3.1.
const metadataPath = "/.well-known/oauth-authorization-server"

// MetadataCandidates returns further ways in which a route matches if its plugin answers for
// authorisation server metadata: one for each path, or one for a route without paths. Regular
// expressions have none, because their issuers are unknown.
func MetadataCandidates(id string, created time.Time, r *Route) []Candidate {
	var out []Candidate
	for _, c := range Candidates(id, created, r) {
		if IsRegexPath(c.Path) {
			continue
		}
		c.Path, c.Metadata = metadataPath+strings.TrimSuffix(c.Path, "/"), true
		out = append(out, c)
	}
	return out
}

// Compare orders candidates by priority: the one that wins comes first. The first difference
// decides: more kinds of attributes; only plain hosts; more header names; regex paths before
// prefixes; higher regex_priority; longer prefix; older route. Ids break the remaining ties,
// so that the order is total and the same on every replica. Only two equal paths of one route
// compare as equal. A path of metadata counts as a prefix.
func Compare(a, b Candidate) int {
	return cmp.Or(a.Tier().Compare(b.Tier()), CompareWithin(a, b))
}

// CompareWithin does the same as Compare for two candidates of one tier.
func CompareWithin(a, b Candidate) int {
	var order int
	if IsRegexPath(a.Path) {
		order = cmp.Compare(b.Route.RegexPriority, a.Route.RegexPriority)
	} else {
		order = cmp.Compare(len(b.Path), len(a.Path))
	}
	return cmp.Or(order, a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Path, b.Path))
}

// Tier holds what is compared before paths. In a tier without regular expressions the longer
// path wins, so its candidates may be looked up by path.
type Tier struct {
	// Kinds is the number of kinds of attributes that the route sets.
	Kinds int
	// Plain is set if there are hosts and none is a wildcard.
	Plain bool
	// Headers is the number of header names.
	Headers int
	// Regex is set if the path is a regular expression.
	Regex bool
}

// Compare orders tiers: the one that wins comes first.
func (t Tier) Compare(o Tier) int {
	return cmp.Or(
		cmp.Compare(o.Kinds, t.Kinds), first(t.Plain, o.Plain), cmp.Compare(o.Headers, t.Headers), first(t.Regex, o.Regex),
	)
}

// Tier returns the tier of a candidate.
func (c Candidate) Tier() Tier {
	return Tier{attributes(c.Route), plainHosts(c.Route), len(c.Route.Headers), IsRegexPath(c.Path)}
}

// first sorts true before false.
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

// IsRegexPath reports whether a path of a route is a regular expression.
func IsRegexPath(path string) bool { return strings.HasPrefix(path, "~") }

// Matchable reports what the gateway cannot match about a route, or nil. A route that is not
// matchable must be left out completely, because matching it without one of its attributes
// would widen it.
func Matchable(r *Route) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, h := range r.Hosts {
		if _, ok := ParseHost(h); !ok {
			add("host %q cannot be matched", h)
		}
	}
	for _, p := range r.Paths {
		if err := matchablePath(p); err != nil {
			add("path %q cannot be matched: %w", p, err)
		}
	}
	for name, values := range r.Headers {
		if len(values) == 0 {
			add("header %q has no values", name)
		}
		for _, v := range values {
			if strings.HasPrefix(v, headerPattern) {
				if _, err := ParseHeader(v); err != nil {
					add("header %q cannot be matched: %w", name, err)
				}
			}
		}
	}
	for _, p := range r.Protocols {
		if routeProtocolText(p) != "" {
			add("protocol %q cannot be served", p)
		}
	}
	if len(r.Hosts)+len(r.Paths)+len(r.Methods)+len(r.Headers)+len(r.SNIs) == 0 {
		add("no attribute is set")
	}
	return errors.Join(errs...)
}

func matchablePath(p string) error {
	switch {
	case IsRegexPath(p):
		_, err := ParsePath(p)
		return err
	// A normalised path never contains a question mark or a fragment.
	case !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#"):
		return errors.New("it is no prefix of a path")
	}
	return nil
}

// secured lists the protocols with TLS and their counterparts without.
var secured = [][2]string{{"https", "http"}, {"grpcs", "grpc"}, {"wss", "ws"}}

// HTTPSOnly reports whether a route refuses requests that did not come over TLS: its
// protocols contain https, grpcs or wss without the counterpart. (A route only for http does
// not refuse https.)
func HTTPSOnly(r *Route) bool {
	return slices.ContainsFunc(secured, func(pair [2]string) bool {
		return slices.Contains(r.Protocols, pair[0]) && !slices.Contains(r.Protocols, pair[1])
	})
}

// IsGRPC reports whether a route is for gRPC.
func IsGRPC(r *Route) bool {
	return slices.Contains(r.Protocols, "grpc") || slices.Contains(r.Protocols, "grpcs")
}

// IsWebSocket reports whether a route is for WebSocket.
func IsWebSocket(r *Route) bool {
	return slices.Contains(r.Protocols, "ws") || slices.Contains(r.Protocols, "wss")
}
