package interpret

import (
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// rewrite changes a request as its route says: the host and the path, and the headers, those of
// the route first and those of the table last.
func rewrite(c choice, a *routev3.RouteAction, r *Request) error {
	path := r.path()
	switch h := a.GetHostRewriteSpecifier().(type) {
	case nil, *routev3.RouteAction_AutoHostRewrite:
	case *routev3.RouteAction_HostRewriteLiteral:
		r.Host = h.HostRewriteLiteral
	case *routev3.RouteAction_HostRewritePathRegex:
		host, err := substitute(h.HostRewritePathRegex, path)
		if err != nil {
			return err
		}
		r.Host = host
	default:
		return unsaid("how the route rewrites the host")
	}
	switch {
	case a.GetPrefixRewrite() != "":
		r.setPath(a.GetPrefixRewrite() + path[matched(c.route.GetMatch(), path):])
	case a.GetRegexRewrite() != nil:
		text, err := substitute(a.GetRegexRewrite(), path)
		if err != nil {
			return err
		}
		r.setPath(text)
	}
	for _, level := range []interface {
		GetRequestHeadersToAdd() []*corev3.HeaderValueOption
		GetRequestHeadersToRemove() []string
	}{c.route, c.host, c.table} {
		if err := edit(r, level.GetRequestHeadersToAdd(), level.GetRequestHeadersToRemove()); err != nil {
			return err
		}
	}
	return nil
}

// matched is how much of a path the matcher of its route has matched.
func matched(m *routev3.RouteMatch, path string) int {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return min(len(p.Prefix), len(path))
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return min(len(p.PathSeparatedPrefix), len(path))
	}
	return len(path)
}

// group is a reference of Envoy to a part of what a pattern has matched.
var group = regexp.MustCompile(`\\(\d)`)

// substitute replaces everything in a text that a pattern matches.
func substitute(s *matcherv3.RegexMatchAndSubstitute, in string) (string, error) {
	if err := understood(s.GetPattern()); err != nil {
		return "", err
	}
	re, err := regexp.Compile(anyByte(s.GetPattern().GetRegex()))
	if err != nil {
		return "", unsaid("the pattern %q", s.GetPattern().GetRegex())
	}
	with := group.ReplaceAllString(strings.ReplaceAll(s.GetSubstitution(), "$", "$$"), "$${$1}")
	return re.ReplaceAllString(in, strings.ReplaceAll(with, `\\`, `\`)), nil
}

// edit removes and then adds headers.
func edit(r *Request, add []*corev3.HeaderValueOption, remove []string) error {
	for _, name := range remove {
		r.remove(name)
	}
	for _, o := range add {
		name, value := strings.ToLower(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		_, there := r.value(name)
		switch o.GetAppendAction() {
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
			if !there {
				continue
			}
			r.remove(name)
		case corev3.HeaderValueOption_ADD_IF_ABSENT:
			if there {
				continue
			}
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			r.remove(name)
		case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
		default:
			return unsaid("how the header %q is added", name)
		}
		filled := strings.Contains(strings.ReplaceAll(value, "%%", ""), "%")
		r.Headers = append(r.Headers, Header{Name: name, Value: strings.ReplaceAll(value, "%%", "%"), filled: filled})
	}
	return nil
}
