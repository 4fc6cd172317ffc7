package interpret

import (
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// regex compiles a pattern that Envoy matches against the whole of a text. Go's expressions are
// those of RE2, except that they have no \C; in visible ASCII, which is all that a request has
// here, that is any character.
func regex(m *matcherv3.RegexMatcher) (*regexp.Regexp, error) {
	if err := understood(m); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`^(?:` + anyByte(m.GetRegex()) + `)$`)
	if err != nil {
		return nil, unsaid("the pattern %q", m.GetRegex())
	}
	return re, nil
}

// anyByte replaces \C in a pattern.
func anyByte(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '\\' || i+1 == len(pattern) {
			out.WriteByte(pattern[i])
			continue
		}
		if i++; pattern[i] == 'C' {
			out.WriteString(`(?s:.)`)
		} else {
			out.WriteString(pattern[i-1 : i+1])
		}
	}
	return out.String()
}

// text reports whether a text matches (envoy.type.matcher.v3.StringMatcher).
func text(m *matcherv3.StringMatcher, s string) (bool, error) {
	if err := understood(m); err != nil {
		return false, err
	}
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(s) == fold(p.Exact), nil
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(s), fold(p.Prefix)), nil
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(s), fold(p.Suffix)), nil
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(s), fold(p.Contains)), nil
	case *matcherv3.StringMatcher_SafeRegex:
		if strings.ContainsFunc(s, func(c rune) bool { return c > '~' }) {
			return false, unsaid("how a pattern matches text that is not ASCII")
		}
		re, err := regex(p.SafeRegex)
		return err == nil && re.MatchString(s), err
	}
	return false, unsaid("a matcher of texts without a pattern")
}

// headers reports whether all matchers hold for a request. A missing header matches nothing, not
// even what is inverted (config.route.v3.HeaderMatcher.treat_missing_header_as_empty).
func headers(ms []*routev3.HeaderMatcher, r *Request) (bool, error) {
	for _, m := range ms {
		if ok, err := header(m, r); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func header(m *routev3.HeaderMatcher, r *Request) (bool, error) {
	if err := understood(m); err != nil {
		return false, err
	}
	if err := r.readable(m.GetName()); err != nil {
		return false, err
	}
	value, there := r.value(m.GetName())
	switch s := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		if !there && !m.GetTreatMissingHeaderAsEmpty() {
			return false, nil
		}
		ok, err := text(s.StringMatch, value)
		return ok != m.GetInvertMatch(), err
	case *routev3.HeaderMatcher_PresentMatch:
		return (there == s.PresentMatch) != m.GetInvertMatch(), nil
	}
	return false, unsaid("how the header %q is matched", m.GetName())
}

// taken reports whether a route is for a request. normalised says that Envoy has changed the path
// before, so that only a plain one is sure to be as it was.
func taken(m *routev3.RouteMatch, r *Request, normalised bool) (bool, error) {
	if err := understood(m); err != nil {
		return false, err
	}
	if len(m.GetFilterState()) > 0 {
		return false, nil // only the OAuth server's word makes filter state, after the filter ran
	}
	if ok, err := headers(m.GetHeaders(), r); !ok || err != nil {
		return false, err
	}
	return pathMatches(m, r, normalised)
}

func pathMatches(m *routev3.RouteMatch, r *Request, normalised bool) (bool, error) {
	path := r.path()
	fold := func(s string) string { return s }
	if m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue() {
		fold = strings.ToLower
	}
	if p, ok := m.GetPathSpecifier().(*routev3.RouteMatch_Prefix); ok && p.Prefix == "/" && (!normalised || !strings.Contains(path, "%00")) {
		return true, nil
	}
	if normalised && !plain(path) {
		return false, unsaid("how the path %q is normalised", path)
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return strings.HasPrefix(fold(path), fold(p.Prefix)), nil
	case *routev3.RouteMatch_Path:
		return fold(path) == fold(p.Path), nil
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, ok := strings.CutPrefix(fold(path), fold(p.PathSeparatedPrefix))
		return ok && (rest == "" || rest[0] == '/'), nil
	case *routev3.RouteMatch_SafeRegex:
		re, err := regex(p.SafeRegex)
		return err == nil && re.MatchString(path), err
	}
	return false, unsaid("how a route matches paths")
}

// hosted returns the virtual host of an authority, nil if there is none: the exact domain, else
// the longest with a wildcard in front, else the longest with one behind, else "*"
// (config.route.v3.VirtualHost.domains).
func hosted(hosts []*routev3.VirtualHost, authority string) *routev3.VirtualHost {
	authority = strings.ToLower(authority)
	var best *routev3.VirtualHost
	rank, length := 0, 0
	for _, h := range hosts {
		for _, d := range h.GetDomains() {
			d = strings.ToLower(d)
			got := 0
			switch {
			case d == authority:
				got = 4
			case d == "*":
				got = 1
			case strings.HasPrefix(d, "*") && strings.HasSuffix(authority, d[1:]) && len(authority) >= len(d):
				got = 3
			case strings.HasSuffix(d, "*") && strings.HasPrefix(authority, d[:len(d)-1]) && len(authority) >= len(d):
				got = 2
			}
			if got > rank || got == rank && got > 0 && len(d) > length {
				best, rank, length = h, got, len(d)
			}
		}
	}
	return best
}
