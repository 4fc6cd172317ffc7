package chain

import (
	"fmt"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	factsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// authzTimeout is how long Envoy waits for a decision. The service gives a look-up up after
// five seconds.
const authzTimeout = 6 * time.Second

// headerPeer is where Envoy writes the address of the client.
const headerPeer = "x-envoy-external-address"

// Authz returns the filters of a listener, whose clients are connected by a scheme, http or
// https, that ask the authorization service on all routes but those that say [AuthzUnasked], and have Envoy choose the
// route to the OAuth server where the service says so. They clean nothing.
func Authz(scheme string) ([]*hcmv3.HttpFilter, error) {
	ask, err := httpFilter(contract.ExtAuthzFilter, &authzv3.ExtAuthz{
		Services: &authzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: contract.AuthzCluster}},
			Timeout:         durationpb.New(authzTimeout),
			InitialMetadata: []*corev3.HeaderValue{
				{Key: contract.AuthzScheme, Value: scheme}, {Key: contract.AuthzClient, Value: headerPeer},
			},
		}},
		TransportApiVersion: corev3.ApiVersion_V3,
		// These are the defaults; they are what the whole of it depends on.
		FailureModeAllow: false, ClearRouteCache: false,
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		EncodeRawHeaders: true, ValidateMutations: true,
		RouteMetadataContextNamespaces: []string{contract.MetadataNamespace},
	})
	if err != nil {
		return nil, err
	}
	again, err := rerouting()
	return []*hcmv3.HttpFilter{ask, again}, err
}

// rerouting returns a filter that has Envoy choose a route again, for requests that go to the
// OAuth server and for no others: of every other request the service has decided about the
// route that it came by, and what it hides could lead to another one. The filter makes filter
// state of what the service has recorded about the request, and the table selects by that: it
// is the service's word alone, where a header could be a client's.
func rerouting() (*hcmv3.HttpFilter, error) {
	input, err := plan.Pack(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: contract.HeaderOAuthPlugin})
	if err != nil {
		return nil, err
	}
	skip, err := plan.Pack(&skipv3.SkipFilter{})
	if err != nil {
		return nil, err
	}
	clearing, err := plan.Pack(&statev3.Config{
		OnRequestHeaders: []*factsv3.FilterStateValue{{
			Key: &factsv3.FilterStateValue_ObjectKey{ObjectKey: contract.StateOAuth}, FactoryKey: "envoy.string",
			Value: &factsv3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
					Specifier: &corev3.DataSource_InlineString{InlineString: "%DYNAMIC_METADATA(" + contract.ExtAuthzFilter + ":" + contract.StateOAuth + ")%"},
				}},
			}},
		}},
		ClearRouteCache: true,
	})
	if err != nil {
		return nil, err
	}
	handedOver := &xdsmatcherv3.Matcher_MatcherList_Predicate{
		MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: &xdscorev3.TypedExtensionConfig{Name: contract.HeaderOAuthPlugin, TypedConfig: input},
			Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &xdsmatcherv3.StringMatcher{
				MatchPattern: &xdsmatcherv3.StringMatcher_SafeRegex{SafeRegex: &xdsmatcherv3.RegexMatcher{
					Regex: `\C+`, EngineType: &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &xdsmatcherv3.RegexMatcher_GoogleRE2{}},
				}},
			}},
		}},
	}
	return httpFilter("envoy.filters.http.match_delegate", &matchingv3.ExtensionWithMatcher{
		XdsMatcher: &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{
			Matchers: []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher{{
				Predicate: &xdsmatcherv3.Matcher_MatcherList_Predicate{
					MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: handedOver},
				},
				OnMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
					Action: &xdscorev3.TypedExtensionConfig{Name: "skip", TypedConfig: skip},
				}},
			}},
		}}},
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.set_filter_state", TypedConfig: clearing},
	})
}

// AuthzUnasked has Envoy ask nothing about a route without a chain. It asks about every other
// route.
func AuthzUnasked() *authzv3.ExtAuthzPerRoute {
	return &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}}
}

// AuthzPerRoute has Envoy ask about a chain. Where the chain looks into bodies, Envoy keeps the
// beginning of each body for the question; buffer is how much of a body it must be able to
// keep, 0 for its default. An error says why the service cannot carry the chain out.
func AuthzPerRoute(encoded []byte) (config *authzv3.ExtAuthzPerRoute, buffer uint64, err error) {
	c, err := contract.ParseChain(encoded)
	if err != nil {
		return nil, 0, err
	}
	if withoutBodies(c) {
		if encoded, err = c.Marshal(); err != nil {
			return nil, 0, err
		}
	}
	if err := contract.ModeExtAuthz.Honours(c); err != nil {
		return nil, 0, fmt.Errorf("filter.mode %s: %w", contract.ModeExtAuthz, err)
	}
	check := &authzv3.CheckSettings{ContextExtensions: map[string]string{contract.AuthzChain: string(encoded)}}
	if c.Issues {
		check.ContextExtensions[contract.AuthzIssue] = contract.AuthzTrue
	}
	if c.ReadsBodies() {
		check.ContextExtensions[contract.AuthzBody] = contract.AuthzTrue
		check.WithRequestBody = &authzv3.BufferSettings{MaxRequestBytes: contract.AuthzMaxBody, AllowPartialMessage: true, PackAsBytes: true}
		buffer = 2 * contract.AuthzMaxBody
	}
	return &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: check}}, buffer, nil
}

// withoutBodies takes out of the chain of a route for gRPC that its plugins look into bodies.
// They find nothing there, because such a body is no form, and a call in both directions would
// wait for its end. It reports whether there was something to take out.
func withoutBodies(c *contract.Chain) bool {
	if c.Protocol != contract.ProtocolGRPC || !c.ReadsBodies() {
		return false
	}
	for i := range c.Plugins {
		if p := c.Plugins[i].OAuth2; p != nil {
			p.InBody = false
		}
		if p := c.Plugins[i].KeyAuth; p != nil {
			p.InBody = false
		}
	}
	return true
}
