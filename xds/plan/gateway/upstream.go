package gateway

import (
	"regexp"
	"strings"
)

// join is one way in which a request path becomes an upstream path. Exactly one
// of exact and prefix is set. Joins of one candidate are tried in order; together
// they match what the candidate's path matches and nothing else.
type join struct {
	exact, prefix string
	// rewrite replaces what exact or prefix matched; empty keeps the path.
	rewrite string
	// pattern, if set, is replaced by substitution instead (RE2).
	pattern, substitution string
}

// joins implements the table of upstream URLs for a route path (empty if the
// route has none), strip_path and the service's path (empty means "/"). Envoy
// has normalised the request path: it has no dot segments, no empty segments,
// and unreserved characters are not escaped.
func joins(path string, strip bool, base string) []join {
	if base == "" {
		base = "/"
	}
	trimmed := strings.TrimSuffix(base, "/")
	if path == "" || path == "/" {
		return joinRoot(base, trimmed)
	}
	switch {
	case !strip && trimmed == "":
		return []join{{prefix: path}}
	case !strip:
		return []join{{prefix: path, rewrite: trimmed + path}}
	case strings.HasSuffix(path, "/"):
		return []join{{prefix: path, rewrite: trimmed + "/"}}
	default:
		return joinStripped(path, trimmed)
	}
}

// joinRoot joins without a prefix to strip, or with "/", which is the same: the
// rest of "/" is the base as it is written.
func joinRoot(base, trimmed string) []join {
	switch {
	case trimmed == "":
		return []join{{prefix: "/"}}
	case base != trimmed:
		return []join{{prefix: "/", rewrite: base}}
	default:
		return []join{{exact: "/", rewrite: base}, {prefix: "/", rewrite: base + "/"}}
	}
}

// joinStripped strips a path without a trailing slash. The rest may then be
// empty, start with a slash, or be the tail of a segment; such a tail can begin
// with dots that were no dot segment before and would be one now, leading out of
// the base: they are dropped.
func joinStripped(path, trimmed string) []join {
	var out []join
	if trimmed != "" {
		out = append(out, join{exact: path, rewrite: trimmed})
	}
	return append(out,
		join{prefix: path + "/", rewrite: trimmed + "/"},
		dotted(path, trimmed),
		join{prefix: path, rewrite: trimmed + "/"},
	)
}

// dotted handles rests that begin with a dot. A rest that is nothing but dots
// yields the base without a slash, which no substitution can leave out; so the
// slash is captured from the path, in the alternative that needs it.
func dotted(path, trimmed string) join {
	j := join{prefix: path + "."}
	if trimmed == "" {
		j.pattern = "^" + regexp.QuoteMeta(path) + `(?:\.\.?(?:/|$))?(.*)$`
		j.substitution = `/\1`
		return j
	}
	j.pattern = "^(?:" + regexp.QuoteMeta(path) + `\.\.?$|(/)` + regexp.QuoteMeta(path[1:]) + `(?:\.\.?/)?(.*)$)`
	j.substitution = strings.ReplaceAll(trimmed, `\`, `\\`) + `\1\2`
	return j
}
