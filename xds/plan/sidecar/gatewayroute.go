package sidecar

import (
	"cmp"
	"math"
	"regexp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/selection"
)

// builtinTimeout is how long a request through a gateway may take where no Timeout is chosen, as
// Envoy recommends at the edge.
const builtinTimeout = 15 * time.Second

// builtinRequest is how long a client of a gateway may take to send a request, unless a Timeout
// gives an answer more time (Envoy's recommendations for edge proxies).
const builtinRequest = 300 * time.Second

// gatewayRoute makes the route of a match, before policies edit it. clusters are those of
// [mesh.HTTPGatewayRule.Destinations].
func gatewayRoute(k *builtinRouteKey, clusters []string) *routev3.Route {
	r := &routev3.Route{Name: k.name, Match: gatewayMatch(k.match)}
	for i := range k.rule.Filters {
		if redirect := k.rule.Filters[i].Redirect; redirect != nil {
			r.Action = &routev3.Route_Redirect{Redirect: redirected(redirect, k)}
			return r
		}
	}
	action := &routev3.RouteAction{Timeout: durationpb.New(builtinTimeout)}
	r.Action = &routev3.Route_Route{Route: action}
	shareOut(action, k.rule.Backends, clusters)
	mirrors := clusters[len(k.rule.Backends):]
	for i := range k.rule.Filters {
		f := &k.rule.Filters[i]
		switch {
		case f.RequestHeader != nil:
			requestHeaders(r, action, f.RequestHeader)
		case f.ResponseHeader != nil:
			r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, headerOptions(f.ResponseHeader)...)
			r.ResponseHeadersToRemove = append(r.ResponseHeadersToRemove, f.ResponseHeader.Remove...)
		case f.Rewrite != nil:
			rewrite(action, f.Rewrite.Path(), k.match)
		case f.Mirror != nil:
			action.RequestMirrorPolicies = append(action.RequestMirrorPolicies, &routev3.RouteAction_RequestMirrorPolicy{
				Cluster: mirrors[0], RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: share(*f.Mirror.Percentage)},
			})
			mirrors = mirrors[1:]
		}
	}
	return r
}

// shareOut leads requests to backends by their weights; by equal ones if none has a weight.
func shareOut(a *routev3.RouteAction, backends []mesh.GatewayBackend, clusters []string) {
	if len(backends) == 1 {
		a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: clusters[0]}
		return
	}
	weights := selection.Weights(backends)
	all := &routev3.WeightedCluster{}
	for i, w := range weights {
		all.Clusters = append(all.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: clusters[i], Weight: wrapperspb.UInt32(w)})
	}
	a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: all}
}

func gatewayMatch(m *mesh.GatewayMatch) *routev3.RouteMatch {
	out := &routev3.RouteMatch{}
	switch kind, path := selection.PathOf(m); {
	case kind == mesh.MatchExact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: path}
	case kind == mesh.MatchRegex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: path}}
	case path == "/":
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: path}
	default:
		out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: path}
	}
	if m.Method != "" {
		out.Headers = append(out.Headers, exactly(":method", m.Method))
	}
	for i := range m.Headers {
		out.Headers = append(out.Headers, headerMatch(&m.Headers[i]))
	}
	for i := range m.QueryParameters {
		q := &m.QueryParameters[i]
		out.QueryParameters = append(out.QueryParameters, &routev3.QueryParameterMatcher{
			Name: q.Name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_StringMatch{StringMatch: textMatch(q.Kind(), q.Value)},
		})
	}
	return out
}

func exactly(name, value string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: textMatch(mesh.MatchExact, value)}}
}

func headerMatch(h *mesh.GatewayHeaderMatch) *routev3.HeaderMatcher {
	if kind := h.Kind(); kind == mesh.MatchAbsent || kind == mesh.MatchPresent {
		return &routev3.HeaderMatcher{Name: h.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: kind == mesh.MatchPresent}}
	}
	return &routev3.HeaderMatcher{Name: h.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: textMatch(h.Kind(), h.Value)}}
}

func textMatch(kind, value string) *matcherv3.StringMatcher {
	if kind == mesh.MatchRegex {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: value}}}
	}
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value}}
}

// requestHeaders edits the headers of requests. The host is not one of them for Envoy.
func requestHeaders(r *routev3.Route, a *routev3.RouteAction, h *mesh.GatewayHeaderFilter) {
	rest := mesh.GatewayHeaderFilter{Add: h.Add}
	for _, set := range h.Set {
		if strings.EqualFold(set.Name, "host") || set.Name == ":authority" {
			a.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: set.Value}
			continue
		}
		rest.Set = append(rest.Set, set)
	}
	r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, headerOptions(&rest)...)
	r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, h.Remove...)
}

func headerOptions(h *mesh.GatewayHeaderFilter) (out []*corev3.HeaderValueOption) {
	add := func(hs []mesh.GatewayHeader, how corev3.HeaderValueOption_HeaderAppendAction) {
		for _, x := range hs {
			out = append(out, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: x.Name, Value: plan.Literal(x.Value)}, AppendAction: how})
		}
	}
	add(h.Set, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add(h.Add, corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return out
}

// rewrite changes the path of requests.
func rewrite(a *routev3.RouteAction, p *mesh.GatewayPathRewrite, m *mesh.GatewayMatch) {
	switch {
	case p == nil:
	case p.ReplaceFull != nil:
		a.RegexRewrite = wholePath(*p.ReplaceFull)
	default:
		a.PrefixRewrite, a.RegexRewrite = replacePrefix(m, *p.ReplacePrefixMatch)
	}
}

func wholePath(path string) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{
		Pattern: &matcherv3.RegexMatcher{Regex: `^/.*$`}, Substitution: strings.ReplaceAll(path, `\`, `\\`),
	}
}

// replacePrefix returns what replaces the prefix of a match, as Envoy does it: by a text, or by an
// expression where a slash has to stay between what would otherwise be nothing and the rest.
func replacePrefix(m *mesh.GatewayMatch, by string) (string, *matcherv3.RegexMatchAndSubstitute) {
	_, prefix := selection.PathOf(m)
	by = strings.TrimRight(by, "/")
	switch {
	case prefix == "/" && by == "":
		return "", nil
	case prefix == "/":
		return by + "/", nil
	case by == "":
		return "", &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: "^" + regexp.QuoteMeta(prefix) + "/*"}, Substitution: "/"}
	}
	return by, nil
}

var redirectCodes = map[uint32]routev3.RedirectAction_RedirectResponseCode{
	301: routev3.RedirectAction_MOVED_PERMANENTLY, 302: routev3.RedirectAction_FOUND, 303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT, 308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// redirected makes a redirect. Its port is that of the listener, or that of another scheme.
func redirected(r *mesh.GatewayRedirect, k *builtinRouteKey) *routev3.RedirectAction {
	own, standard := "http", map[string]uint32{"http": 80, "https": 443}
	if k.secure {
		own = "https"
	}
	out := &routev3.RedirectAction{HostRedirect: r.Hostname, ResponseCode: redirectCodes[r.StatusCode]}
	switch scheme := cmp.Or(r.Scheme, own); {
	case scheme != own:
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: scheme}
		out.PortRedirect = standard[scheme]
	case k.port != standard[own]:
		out.PortRedirect = k.port
	}
	if r.Port != nil {
		out.PortRedirect = *r.Port
	}
	switch p := r.Path; {
	case p == nil:
	case p.ReplaceFull != nil:
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: *p.ReplaceFull}
	default:
		text, expression := replacePrefix(k.match, *p.ReplacePrefixMatch)
		if expression != nil {
			out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: expression}
		} else if text != "" {
			out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: text}
		}
	}
	return out
}

// share returns a percentage as Envoy writes it.
func share(percentage float64) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: uint32(math.Round(percentage * 1e4)), Denominator: typev3.FractionalPercent_MILLION}
}
