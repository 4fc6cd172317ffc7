package edge

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/resource"
)

// request is a request as the router of a listener sees it.
type request struct {
	method, scheme, host, path string
	headers                    map[string]string
	sni                        string
	port                       int // of the listener
	issuing, trusted           bool
}

// header returns what a matcher sees under a name.
func (r request) header(name string) (string, bool) {
	switch name {
	case ":method":
		return r.method, true
	case ":authority":
		return r.host, r.host != ""
	case ":path":
		return r.path, true
	case "x-forwarded-proto":
		return r.scheme, true
	}
	v, ok := r.headers[name]
	return v, ok
}

// fact returns the filter state of the request and of its connection.
func (r request) fact(key string) (string, bool) {
	switch {
	case key == factTrusted:
		return isTrusted, r.trusted
	case key == contract.StateOAuth:
		return contract.StateHandedOver, r.issuing
	case key == factPort:
		return fmt.Sprint(r.port), true
	case r.scheme == "https":
		return serverNamed + r.sni, true
	default:
		return noTLS, true
	}
}

// evaluate decides a request as Envoy does, for the parts of a route configuration that plans
// use, and describes the result in words.
func evaluate(t tb, set *resource.Set, r request) string {
	t.Helper()
	return decide(t, tableOf(t, set), r)
}

func tableOf(t tb, set *resource.Set) *routev3.RouteConfiguration {
	t.Helper()
	config := new(routev3.RouteConfiguration)
	tables := set.All(resource.Route)
	if len(tables) != 1 {
		t.Fatalf("there are %d route tables", len(tables))
	}
	if err := proto.Unmarshal(tables[0].Body, config); err != nil {
		t.Fatal(err)
	}
	eachSays(t, config)
	return config
}

func decide(t tb, config *routev3.RouteConfiguration, r request) string {
	t.Helper()
	vhost := find(config, r.host)
	routes := vhost.Routes
	if vhost.Matcher != nil {
		routes = follow(t, vhost.Matcher, r)
	}
	for _, route := range routes {
		if matches(t, route.Match, r) {
			return outcome(t, route, r)
		}
	}
	return "nothing"
}

// find looks for an exact domain, then for the longest wildcard on the left, then for the
// longest one on the right.
func find(config *routev3.RouteConfiguration, host string) *routev3.VirtualHost {
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	var best *routev3.VirtualHost
	rank := -1
	for _, v := range config.VirtualHosts {
		for _, d := range v.Domains {
			is := -1
			switch bare := strings.Trim(d, "*"); {
			case d == "*":
				is = 0
			case d == name:
				is = 3000
			case strings.HasPrefix(d, "*") && strings.HasSuffix(name, bare) && name != bare:
				is = 2000 + len(d)
			case strings.HasSuffix(d, "*") && strings.HasPrefix(name, bare) && name != bare:
				is = 1000 + len(d)
			}
			if is > rank {
				best, rank = v, is
			}
		}
	}
	return best
}

// follow returns the routes that a matcher leads to. nil means no match; the caller then tries
// the next matcher.
func follow(t tb, m *xdsmatcherv3.Matcher, r request) []*routev3.Route {
	t.Helper()
	if tree := m.GetMatcherTree(); tree != nil {
		text, _ := inputOf(t, tree.Input, r)
		all := tree.GetPrefixMatchMap().Map
		var prefixes []string
		for p := range all {
			if strings.HasPrefix(text, p) {
				prefixes = append(prefixes, p)
			}
		}
		slices.SortFunc(prefixes, func(a, b string) int { return len(b) - len(a) })
		for _, p := range prefixes {
			if routes := led(t, all[p], r); routes != nil {
				return routes
			}
		}
	}
	for _, entry := range m.GetMatcherList().GetMatchers() {
		if holds(t, entry.Predicate, r) {
			if routes := led(t, entry.OnMatch, r); routes != nil {
				return routes
			}
		}
	}
	return led(t, m.OnNoMatch, r)
}

func led(t tb, on *xdsmatcherv3.Matcher_OnMatch, r request) []*routev3.Route {
	t.Helper()
	switch {
	case on == nil:
		return nil
	case on.GetMatcher() != nil:
		return follow(t, on.GetMatcher(), r)
	}
	m, err := on.GetAction().TypedConfig.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	switch m := m.(type) {
	case *routev3.Route:
		return []*routev3.Route{m}
	case *routev3.RouteList:
		return m.Routes
	}
	t.Fatalf("unexpected action %T", m)
	return nil
}

func inputOf(t tb, in *xdscorev3.TypedExtensionConfig, r request) (string, bool) {
	t.Helper()
	m, err := in.TypedConfig.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	switch m := m.(type) {
	case *matcherv3.HttpRequestHeaderMatchInput:
		return r.header(m.HeaderName)
	case *inputsv3.FilterStateInput:
		return r.fact(m.Key)
	}
	t.Fatalf("unexpected input %T", m)
	return "", false
}

func holds(t tb, p *xdsmatcherv3.Matcher_MatcherList_Predicate, r request) bool {
	t.Helper()
	some := func(q *xdsmatcherv3.Matcher_MatcherList_Predicate) bool { return holds(t, q, r) }
	switch m := p.MatchType.(type) {
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher:
		return slices.ContainsFunc(m.OrMatcher.Predicate, some)
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher:
		return !slices.ContainsFunc(m.AndMatcher.Predicate, func(q *xdsmatcherv3.Matcher_MatcherList_Predicate) bool { return !some(q) })
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher:
		return !some(m.NotMatcher)
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_:
		text, ok := inputOf(t, m.SinglePredicate.Input, r)
		return ok && textMatches(t, m.SinglePredicate.GetValueMatch(), text)
	}
	t.Fatalf("unexpected predicate %v", p)
	return false
}

func textMatches(t tb, m *xdsmatcherv3.StringMatcher, text string) bool {
	t.Helper()
	fold := func(s string) string { return s }
	if m.IgnoreCase {
		fold = strings.ToLower
	}
	switch p := m.MatchPattern.(type) {
	case *xdsmatcherv3.StringMatcher_Exact:
		return fold(text) == fold(p.Exact)
	case *xdsmatcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(text), fold(p.Prefix))
	case *xdsmatcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(text), fold(p.Suffix))
	case *xdsmatcherv3.StringMatcher_Contains:
		return strings.Contains(fold(text), fold(p.Contains))
	case *xdsmatcherv3.StringMatcher_SafeRegex:
		return re2("^(?:" + p.SafeRegex.Regex + ")$").MatchString(latin(text))
	}
	t.Fatalf("unexpected matcher %v", m)
	return false
}

var escapes = regexp.MustCompile(`\\.`)

// latin returns a text as Envoy's RE2 sees it: as its bytes.
func latin(s string) string {
	var out []rune
	for _, b := range []byte(s) {
		out = append(out, rune(b))
	}
	return string(out)
}

// re2 translates an expression of RE2 for Go.
func re2(pattern string) *regexp.Regexp {
	return regexp.MustCompile(escapes.ReplaceAllStringFunc(pattern, func(e string) string {
		if e == `\C` {
			return `(?s:.)`
		}
		return e
	}))
}

func matches(t tb, m *routev3.RouteMatch, r request) bool {
	t.Helper()
	path, _, _ := strings.Cut(r.path, "?")
	switch p := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(path, p.Prefix) {
			return false
		}
	case *routev3.RouteMatch_SafeRegex:
		if !re2("^(?:" + p.SafeRegex.Regex + ")$").MatchString(path) {
			return false
		}
	default:
		t.Fatalf("unexpected match %v", m)
	}
	for _, h := range m.Headers {
		v, _ := r.header(h.Name)
		s := h.GetStringMatch()
		switch {
		case s.GetSuffix() != "":
			if !strings.HasSuffix(v, s.GetSuffix()) {
				return false
			}
		case s.IgnoreCase && strings.EqualFold(v, s.GetExact()) == h.InvertMatch:
			return false
		case !s.IgnoreCase:
			t.Fatalf("unexpected header %v", h)
		}
	}
	return true
}

func outcome(t tb, route *routev3.Route, r request) string {
	t.Helper()
	filter := ""
	said := saidBy(t, route)
	if said != nil {
		filter = " filtered"
	}
	switch a := route.Action.(type) {
	case *routev3.Route_DirectResponse:
		return fmt.Sprintf("%d %s%s", a.DirectResponse.Status, route.Name, filter)
	case *routev3.Route_Redirect:
		u := &url.URL{Scheme: "https", Host: r.host}
		if p := a.Redirect.PortRedirect; p != 0 {
			u.Host = fmt.Sprintf("%s:%d", u.Hostname(), p)
		}
		return fmt.Sprintf("%v %s %s%s", a.Redirect.ResponseCode, route.Name, u, r.path)
	case *routev3.Route_Route:
		path := r.path
		if said != nil && said.Strip != nil {
			path = strippedBy(said.Strip, path)
		}
		return "to " + route.Name + " " + rewritten(route, a.Route, path) + filter
	default:
		t.Fatalf("unexpected action %v", route)
		return ""
	}
}

// rewritten applies the rewrite of a route to the path without its query.
func rewritten(route *routev3.Route, a *routev3.RouteAction, path string) string {
	path, query, asked := strings.Cut(path, "?")
	if asked {
		query = "?" + query
	}
	switch {
	case a.RegexRewrite != nil:
		groups := re2(a.RegexRewrite.Pattern.Regex).FindStringSubmatch(path)
		if groups == nil {
			return path + query
		}
		pairs := []string{`\\`, `\`}
		for i, g := range groups {
			pairs = append(pairs, fmt.Sprintf(`\%d`, i), g)
		}
		return strings.NewReplacer(pairs...).Replace(a.RegexRewrite.Substitution) + query
	case a.PrefixRewrite != "":
		return a.PrefixRewrite + strings.TrimPrefix(path, route.Match.GetPrefix()) + query
	default:
		return path + query
	}
}

// TestEvaluatorReadsREs: the evaluator matches expressions against whole texts only.
func TestEvaluatorReadsREs(t *testing.T) {
	m := fits(pathInput, `/a|/ab`).GetSinglePredicate().GetValueMatch()
	for text, want := range map[string]bool{"/a": true, "/ab": true, "/abc": false} {
		if got := textMatches(t, m, text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// taken returns the route that a request takes.
func taken(t tb, set *resource.Set, r request) *routev3.Route {
	t.Helper()
	vhost := find(tableOf(t, set), r.host)
	for _, route := range follow(t, vhost.Matcher, r) {
		if matches(t, route.Match, r) {
			return route
		}
	}
	t.Fatalf("%+v takes no route", r)
	return nil
}

func mark(route *routev3.Route) string {
	return route.GetMetadata().GetFilterMetadata()[contract.MetadataNamespace].GetFields()[contract.MetaFilter].GetStringValue()
}

// saidBy returns what a route says to the module. It is nil for a route without a chain, and
// for one that carries its chain itself, for another form of the filter.
func saidBy(t tb, route *routev3.Route) *contract.Carried {
	t.Helper()
	text := mark(route)
	if text == contract.NoChain || text == "" && len(route.GetTypedPerFilterConfig()) > 0 {
		return nil
	}
	said, err := contract.ParseCarried(text)
	if err != nil {
		t.Fatal(err)
	}
	return &said
}

// ownSegment matches dots that a filter removes.
var ownSegment = regexp.MustCompile(`^\.\.?(/|$)`)

// strippedBy strips a path as the filter does.
func strippedBy(s *contract.Strip, path string) string {
	path, query, asked := strings.Cut(path, "?")
	if asked {
		query = "?" + query
	}
	rest := ownSegment.ReplaceAllString(path[s.Prefix:], "$1")
	if rest == "" && s.Base != "" {
		return s.Base + query
	}
	return s.Base + "/" + strings.TrimPrefix(rest, "/") + query
}

// chainOf returns the chain of a route. It is empty for a route without one.
func chainOf(t tb, set *resource.Set, route *routev3.Route) *contract.Chain {
	t.Helper()
	said := saidBy(t, route)
	if said == nil {
		return new(contract.Chain)
	}
	c, err := contract.ParseChain(encodedChains(t, tableOf(t, set))[said.Content])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// encodedChains returns the chains of a table by their content.
func encodedChains(t tb, table *routev3.RouteConfiguration) map[[16]byte][]byte {
	t.Helper()
	var per filterv3.DynamicModuleFilterPerRoute
	var body wrapperspb.StringValue
	if err := table.TypedPerFilterConfig[contract.FilterName].UnmarshalTo(&per); err != nil {
		t.Fatal(err)
	}
	if err := per.FilterConfig.UnmarshalTo(&body); err != nil {
		t.Fatal(err)
	}
	chains, ok := contract.ParseChains([]byte(body.Value))
	if !ok {
		t.Fatalf("carries %q", body.Value)
	}
	out := map[[16]byte][]byte{}
	for _, c := range chains {
		out[contract.ChainContent(c)] = c
	}
	return out
}
