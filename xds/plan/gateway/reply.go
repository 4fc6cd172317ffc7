package gateway

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// headerForwardedPrefix tells the upstream which prefix was stripped.
const headerForwardedPrefix = "x-forwarded-prefix"

// redirects maps the codes that a route may ask for.
var redirects = map[int]routev3.RedirectAction_RedirectResponseCode{
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// reply answers in JSON without an upstream; the match is the caller's.
func reply(status uint32, body string) *routev3.Route {
	return &routev3.Route{
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: status, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
		}},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{overwrite("content-type", "application/json; charset=utf-8")},
	}
}

// insecure refuses plain HTTP on an https-only route, before any plugin runs.
// Listeners write :scheme themselves, so clients cannot choose it. Envoy removes
// Connection and Upgrade from the 426: they speak of its own connection.
func insecure(k routeKey, c gateway.Candidate, method string) []*routev3.Route {
	on := func(r *routev3.Route, extra ...*routev3.HeaderMatcher) *routev3.Route {
		r.Name = k.route.ID
		r.Match = match(join{prefix: prefixOf(c)}, method)
		r.Match.Headers = append(append(r.Match.Headers, header(":scheme", "http")), extra...)
		return r
	}
	code, ok := redirects[k.route.Spec.HTTPSRedirectStatusCode]
	if !ok {
		r := reply(426, `{"message":"Please use HTTPS protocol"}`)
		r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd,
			overwrite("connection", "Upgrade"), overwrite("upgrade", "TLS/1.2, HTTP/1.1"))
		return []*routev3.Route{on(r)}
	}
	to := func(port uint32) *routev3.Route {
		return &routev3.Route{Action: &routev3.Route_Redirect{Redirect: &routev3.RedirectAction{
			SchemeRewriteSpecifier: &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true},
			ResponseCode:           code, PortRedirect: port,
		}}}
	}
	var out []*routev3.Route
	if k.http != 0 && k.https != 0 {
		// Who names the port of the HTTP listener finds HTTPS on that of the other.
		named := &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: fmt.Sprintf(":%d", k.http)}},
		}}
		out = append(out, on(to(k.https), named))
	}
	return append(out, on(to(0)))
}

// issuing sends what the filter hands over to the OAuth server. It comes first
// in every list; only the filter can set the header.
func issuing() *routev3.Route {
	return &routev3.Route{
		Name: contract.OAuthCluster,
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"},
			Headers: []*routev3.HeaderMatcher{{
				Name: contract.HeaderOAuthPlugin, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
			}},
		},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: contract.OAuthCluster},
			Timeout:          durationpb.New(connectionBudget),
		}},
	}
}

// unmatched ends every list.
func unmatched() *routev3.Route {
	r := reply(404, `{"message":"no Route matched with those values"}`)
	r.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}}
	return r
}

// literal escapes a value for Envoy's header formatter.
func literal(s string) string { return strings.ReplaceAll(s, "%", "%%") }
