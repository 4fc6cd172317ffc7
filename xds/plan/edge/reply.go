package edge

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// headerForwardedPrefix tells the upstream which prefix was stripped.
const headerForwardedPrefix = "x-forwarded-prefix"

// redirects maps the status codes that a route may use.
var redirects = map[int]routev3.RedirectAction_RedirectResponseCode{
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// reply answers in JSON without an upstream. The caller sets the match.
func reply(status uint32, body string) *routev3.Route {
	return &routev3.Route{
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: status, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
		}},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{overwrite("content-type", "application/json; charset=utf-8")},
	}
}

// insecure refuses requests without TLS to a route that requires it, before any plugin runs.
// It decides by X-Forwarded-Proto, which the listener writes unless the peer is trusted. Envoy
// removes Connection and Upgrade from the 426, because they concern its own connection.
func insecure(k routeKey, c gateway.Candidate, f fate) []*routev3.Route {
	on := func(r *routev3.Route, extra ...*routev3.HeaderMatcher) *routev3.Route {
		r.Match = match(c, join{})
		r.Match.Headers = append(extra, notHTTPS())
		return finish(about(r, contract.Refused, contract.ReasonHTTPSRequired, k.entity()), k, filtered{}, nil)
	}
	if gateway.IsGRPC(k.route.Spec) {
		// The filter still answers first if the request is not gRPC.
		r := on(insecureGRPC())
		return []*routev3.Route{finish(r, k, f.early, nil)}
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
		// A client that names the port of the HTTP listener is sent to the port of the HTTPS
		// listener.
		named := &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: fmt.Sprintf(":%d", k.http)}},
		}}
		out = append(out, on(to(k.https), named))
	}
	return append(out, on(to(0)))
}

func notHTTPS() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: headerForwardedProto, InvertMatch: true, TreatMissingHeaderAsEmpty: true,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "https"}, IgnoreCase: true,
		}},
	}
}

// insecureGRPC answers as gRPC does: status CANCELLED in the headers of a 200.
func insecureGRPC() *routev3.Route {
	return &routev3.Route{
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200}},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{
			overwrite("content-type", "application/grpc"), overwrite("grpc-status", "1"),
			overwrite("grpc-message", "gRPC request matched gRPCs route"),
		},
	}
}

// issuing sends the requests that the filter hands over to the OAuth server. It comes early in
// every virtual host. Only the filter can set the state that selects it.
func issuing() *routev3.Route {
	return &routev3.Route{
		Name:  contract.OAuthCluster,
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: contract.OAuthCluster},
			Timeout:          durationpb.New(connectionBudget),
			IdleTimeout:      durationpb.New(connectionBudget),
		}},
	}
}

// unmatched answers requests that nothing matches.
func unmatched() *routev3.Route {
	r := reply(404, `{"message":"no Route matched with those values"}`)
	r.Match = everyPath()
	return about(r, contract.Refused, contract.ReasonNoRoute, nil)
}
