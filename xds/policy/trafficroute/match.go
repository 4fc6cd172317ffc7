package trafficroute

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/xds/draft"
)

// matchOf returns what Envoy matches: a path, and headers ordered by name.
func matchOf(m *Match) *routev3.RouteMatch {
	out := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	if m == nil {
		return out
	}
	if p := m.Path; p != nil {
		switch {
		case p.Regex != nil:
			out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex(*p.Regex)}
		case p.Exact != nil:
			out.PathSpecifier = &routev3.RouteMatch_Path{Path: *p.Exact}
		case p.Prefix != nil:
			out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: *p.Prefix}
		}
	}
	if m.Method != nil {
		out.Headers = append(out.Headers, header(":method", *m.Method))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		out.Headers = append(out.Headers, header(name, m.Headers[name]))
	}
	return out
}

func header(name string, t Text) *routev3.HeaderMatcher {
	s := &matcherv3.StringMatcher{}
	switch {
	case t.Regex != nil:
		s.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(*t.Regex)}
	case t.Exact != nil:
		s.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: *t.Exact}
	case t.Prefix != nil:
		s.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: *t.Prefix}
	}
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: s}}
}

func regex(pattern string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: pattern} }

// actionOf returns the rewrites.
func actionOf(m *Modify) *routev3.RouteAction {
	a := &routev3.RouteAction{}
	if m == nil {
		return a
	}
	if p := m.Path; p != nil {
		switch {
		case p.Regex != nil:
			a.RegexRewrite = rewrite(p.Regex)
		case p.RewritePrefix != nil:
			a.PrefixRewrite = *p.RewritePrefix
		}
	}
	if h := m.Host; h != nil {
		switch {
		case h.FromPath != nil:
			a.HostRewriteSpecifier = &routev3.RouteAction_HostRewritePathRegex{HostRewritePathRegex: rewrite(h.FromPath)}
		case h.Value != nil:
			a.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: *h.Value}
		}
	}
	return a
}

func rewrite(s *Substitution) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{Pattern: regex(s.Pattern), Substitution: s.Substitution}
}

// headersOf returns the header changes, in the fields of an otherwise empty route.
func headersOf(m *Modify) *routev3.Route {
	out := &routev3.Route{}
	if m == nil {
		return out
	}
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = edits(m.RequestHeaders)
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = edits(m.ResponseHeaders)
	return out
}

func edits(h *Headers) (add []*corev3.HeaderValueOption, remove []string) {
	if h == nil {
		return nil, nil
	}
	for _, a := range h.Add {
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		if a.Append {
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
		add = append(add, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: a.Name, Value: draft.Literal(a.Value)}, AppendAction: action,
		})
	}
	for _, r := range h.Remove {
		remove = append(remove, r.Name)
	}
	return add, remove
}
