package edge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// predicate is a condition on a request; nil is always true.
type predicate = *xdsmatcherv3.Matcher_MatcherList_Predicate

// These are the inputs of predicates. A table accepts only headers and filter state. Several
// lines of a header are one value, joined by commas (RFC 9110 section 5.3).
var (
	pathInput       = headerInput(":path")
	hostInput       = headerInput(":authority")
	methodInput     = headerInput(":method")
	portInput       = input("port", &inputsv3.FilterStateInput{Key: factPort})
	trustedInput    = input("trusted", &inputsv3.FilterStateInput{Key: factTrusted})
	oauthInput      = input("oauth", &inputsv3.FilterStateInput{Key: contract.StateOAuth})
	serverNameInput = input("server_name", &inputsv3.FilterStateInput{Key: factServerName})
)

func headerInput(name string) *xdscorev3.TypedExtensionConfig {
	return input(name, &matcherv3.HttpRequestHeaderMatchInput{HeaderName: name})
}

func input(name string, m proto.Message) *xdscorev3.TypedExtensionConfig {
	packed, err := plan.Pack(m)
	if err != nil {
		panic(fmt.Sprintf("input %s: %v", name, err)) // names are checked when routes are written
	}
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: packed}
}

func compare(in *xdscorev3.TypedExtensionConfig, with *xdsmatcherv3.StringMatcher) predicate {
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input:   in,
			Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: with},
		},
	}}
}

// equals compares with a text; fold ignores case.
func equals(in *xdscorev3.TypedExtensionConfig, text string, fold bool) predicate {
	return compare(in, &xdsmatcherv3.StringMatcher{
		MatchPattern: &xdsmatcherv3.StringMatcher_Exact{Exact: text}, IgnoreCase: fold,
	})
}

func begins(in *xdscorev3.TypedExtensionConfig, text string, fold bool) predicate {
	return compare(in, &xdsmatcherv3.StringMatcher{
		MatchPattern: &xdsmatcherv3.StringMatcher_Prefix{Prefix: text}, IgnoreCase: fold,
	})
}

func ends(in *xdscorev3.TypedExtensionConfig, text string) predicate {
	return compare(in, &xdsmatcherv3.StringMatcher{MatchPattern: &xdsmatcherv3.StringMatcher_Suffix{Suffix: text}})
}

// fits requires that a regular expression (RE2) matches the whole text.
func fits(in *xdscorev3.TypedExtensionConfig, pattern string) predicate {
	return compare(in, &xdsmatcherv3.StringMatcher{MatchPattern: &xdsmatcherv3.StringMatcher_SafeRegex{
		SafeRegex: &xdsmatcherv3.RegexMatcher{
			EngineType: &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &xdsmatcherv3.RegexMatcher_GoogleRE2{}}, Regex: pattern,
		},
	}})
}

// anyOf is true if at least one of the predicates is. of must not be empty.
func anyOf(of []predicate) predicate {
	if len(of) == 1 {
		return of[0]
	}
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher{
		OrMatcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: of},
	}}
}

// allOf is true if all predicates are. It returns nil for an empty list.
func allOf(of []predicate) predicate {
	switch len(of) {
	case 0:
		return nil
	case 1:
		return of[0]
	}
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher{
		AndMatcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: of},
	}}
}

// anyPath is true for every request with a path. OPTIONS * and CONNECT have none.
func anyPath() predicate { return begins(pathInput, "/", false) }

// conditions returns what a candidate demands besides a host and a prefix.
func conditions(c gateway.Candidate) ([]predicate, error) {
	var out []predicate
	if !c.Metadata && len(c.Route.Methods) > 0 {
		var some []predicate
		for _, m := range slices.Compact(slices.Sorted(slices.Values(c.Route.Methods))) {
			some = append(some, equals(methodInput, m, false))
		}
		out = append(out, anyOf(some))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Route.Headers)) {
		p, err := headerCondition(name, c.Route.Headers[name])
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(c.Route.SNIs) > 0 {
		// Without TLS there is no name to compare.
		some := []predicate{equals(serverNameInput, noTLS, false)}
		for _, name := range slices.Sorted(slices.Values(c.Route.SNIs)) {
			some = append(some, equals(serverNameInput, serverNamed+strings.TrimSuffix(name, "."), true))
		}
		out = append(out, anyOf(some))
	}
	switch {
	case c.Metadata:
		out = append(out, fits(pathInput, regexp.QuoteMeta(c.Path)+`(?:[/?]\C*)?`))
	case gateway.IsRegexPath(c.Path):
		pattern, err := gateway.ParsePath(c.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, fits(pathInput, pattern.Target))
	}
	return out, nil
}

func headerCondition(name string, values []string) (predicate, error) {
	name = strings.ToLower(name)
	if p, ok, err := claimed(name, values); ok || err != nil {
		return p, err
	}
	return valueOf(headerInput(name), values)
}

// valueOf compares an input with the values of a header that a route demands.
func valueOf(in *xdscorev3.TypedExtensionConfig, values []string) (predicate, error) {
	var some []predicate
	for _, v := range values {
		if !strings.HasPrefix(v, "~*") {
			some = append(some, equals(in, v, true))
			continue
		}
		pattern, err := gateway.ParseHeader(v)
		if err != nil {
			return nil, err
		}
		some = append(some, fits(in, pattern))
	}
	return anyOf(some), nil
}
