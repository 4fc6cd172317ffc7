package edge

import (
	"regexp"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// join is one way to turn a request path into an upstream path. The joins of a candidate are
// tried in order; the last one takes every request. Expressions are RE2's and see the path
// without its query.
type join struct {
	// whole, unless empty, is what the whole path must match.
	whole string
	// rewrite replaces the matched prefix; empty keeps the path.
	rewrite string
	// pattern, if set, is replaced with substitution instead.
	pattern, substitution string
	// strip, unless nil, has the same effect in the filter, which runs where there is a chain.
	// An expression is what costs Envoy most when it builds a table.
	strip *contract.Strip
}

// strips reports whether the matched part is removed from the path.
func strips(c gateway.Candidate) bool { return c.Route.StripPath && c.Path != "" && !c.Metadata }

// joinsOf implements the table of upstream URLs for a candidate and the path of its service
// (empty means "/"). Envoy has normalised the request path: it has no dot segments, no empty
// segments, and no escaped unreserved characters.
func joinsOf(c gateway.Candidate, base string) ([]join, error) {
	if base == "" {
		base = "/"
	}
	trimmed := strings.TrimSuffix(base, "/")
	switch {
	case gateway.IsRegexPath(c.Path) && strips(c):
		pattern, err := gateway.ParsePath(c.Path)
		if err != nil {
			return nil, err
		}
		return joinMatched(pattern.Path, base, trimmed), nil
	case c.Path == "" || c.Path == "/" || gateway.IsRegexPath(c.Path):
		return []join{joinRoot(base, trimmed)}, nil
	case !strips(c) && trimmed == "":
		return []join{{}}, nil
	case !strips(c):
		return []join{{rewrite: trimmed + c.Path}}, nil
	case strings.HasSuffix(c.Path, "/"):
		return []join{{rewrite: trimmed + "/"}}, nil
	default:
		return []join{joinStripped(c.Path, trimmed)}, nil
	}
}

// joinRoot joins without a prefix to strip, or with "/", which gives the same result: the path
// "/" becomes the base exactly as it is written.
func joinRoot(base, trimmed string) join {
	switch {
	case trimmed == "":
		return join{}
	case base != trimmed:
		return join{rewrite: base}
	default:
		return join{pattern: `^(?:/|(\C*))$`, substitution: replacement(trimmed) + `\1`}
	}
}

// joinStripped strips a path without a trailing slash. The rest may be empty, start with a
// slash, or be the tail of a segment. Such a tail can begin with dots that were no dot segment
// before but would be one now and lead out of the base; these dots are dropped. If the rest is
// empty, or only dots, the result is the base without a slash. A substitution cannot omit a
// literal slash, so the slash is captured from the path, in the alternative that needs it.
func joinStripped(path, trimmed string) join {
	quoted := regexp.QuoteMeta(path)
	strip := &contract.Strip{Prefix: len(path), Base: trimmed}
	if trimmed == "" {
		return join{pattern: `^` + quoted + `(?:\.\.?(?:/|$))?/?(\C*)$`, substitution: `/\1`, strip: strip}
	}
	return join{
		strip:        strip,
		pattern:      `^(?:` + quoted + `(?:\.\.?)?$|(/)` + regexp.QuoteMeta(path[1:]) + `(?:\.\.?/)?/?(\C*)$)`,
		substitution: replacement(trimmed) + `\1\2`,
	}
}

// joinMatched strips what an expression matches. If it can match in several ways, a match of
// the whole path is preferred, then the match that RE2 prefers.
func joinMatched(pattern, base, trimmed string) []join {
	all := join{whole: `(?:` + pattern + `)(?:\.\.?)?`, pattern: `^(?:/|\C*?(/?))$`, substitution: replacement(trimmed) + `\1`}
	switch {
	case trimmed == "":
		all.pattern, all.substitution = `^\C*$`, "/"
	case base != trimmed:
		all.pattern, all.substitution = `^(?:(/)|\C*?(/?))$`, replacement(trimmed)+`\1\2`
	}
	return []join{all, {pattern: `^(?:` + pattern + `)(?:\.\.?(?:/|$))?/?(\C*)$`, substitution: replacement(trimmed) + `/\1`}}
}

// replacement escapes a text for a substitution.
func replacement(text string) string { return strings.ReplaceAll(text, `\`, `\\`) }
