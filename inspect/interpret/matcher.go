package interpret

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/directing"
)

// mostOthers bounds the routes that are listed beside the one that was taken.
const mostOthers = 10

// lookup walks the matcher of a virtual host (config.route.v3.VirtualHost.matcher). It goes on
// where it has found a route, as Envoy does where it has found none, to learn what else is for
// the request.
type lookup struct {
	r     *Request
	facts map[string]string
	found []*routev3.Route
	// ended says that the first action had no route for the request.
	ended bool
}

// look finds the route of a request by the matcher of its virtual host.
func (p *Passage) look(c *choice, r *Request, normalised bool) error {
	if normalised && !plain(r.path()) {
		return unsaid("how the path %q is normalised", r.path())
	}
	l := &lookup{r: r, facts: p.facts}
	if err := l.matcher(c.host.GetMatcher()); err != nil {
		return err
	}
	if len(l.found) == 0 {
		return nil
	}
	c.route = l.found[0]
	if l.ended {
		c.route = nil
		return nil
	}
	p.About = aboutRoute(c.route)
	seen := map[string]bool{p.About[contract.MetaRouteID]: true, "": true}
	for _, route := range l.found[1:] {
		other := aboutRoute(route)
		if id := other[contract.MetaRouteID]; !seen[id] && len(p.Others) < mostOthers {
			seen[id] = true
			p.Others = append(p.Others, other)
		}
	}
	return nil
}

// aboutRoute is what a route says of itself.
func aboutRoute(route *routev3.Route) map[string]string {
	out := map[string]string{}
	for key, value := range route.GetMetadata().GetFilterMetadata()[contract.MetadataNamespace].GetFields() {
		out[key] = value.GetStringValue()
	}
	return out
}

func (l *lookup) matcher(m *xdsmatcherv3.Matcher) error {
	switch t := m.GetMatcherType().(type) {
	case nil:
	case *xdsmatcherv3.Matcher_MatcherList_:
		for _, f := range t.MatcherList.GetMatchers() {
			ok, err := l.predicate(f.GetPredicate())
			if err == nil && ok {
				err = l.onMatch(f.GetOnMatch())
			}
			if err != nil {
				return err
			}
		}
	case *xdsmatcherv3.Matcher_MatcherTree_:
		if err := l.tree(t.MatcherTree); err != nil {
			return err
		}
	default:
		return unsaid("a matcher of routes")
	}
	if m.GetOnNoMatch() != nil {
		return l.onMatch(m.GetOnNoMatch())
	}
	return nil
}

// tree looks a value up by its prefixes, the longest first.
func (l *lookup) tree(t *xdsmatcherv3.Matcher_MatcherTree) error {
	if t.GetPrefixMatchMap() == nil {
		return unsaid("a tree of routes that is not by prefixes")
	}
	value, ok, err := l.input(t.GetInput())
	if err != nil || !ok {
		return err
	}
	longest := func(a, b string) int { return cmp.Compare(len(b), len(a)) }
	for _, prefix := range slices.SortedFunc(maps.Keys(t.GetPrefixMatchMap().GetMap()), longest) {
		if strings.HasPrefix(value, prefix) {
			if err := l.onMatch(t.GetPrefixMatchMap().GetMap()[prefix]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lookup) onMatch(m *xdsmatcherv3.Matcher_OnMatch) error {
	if m.GetMatcher() != nil {
		return l.matcher(m.GetMatcher())
	}
	if m.GetKeepMatching() {
		return unsaid("a matcher of routes that goes on")
	}
	packed := m.GetAction().GetTypedConfig()
	list := new(routev3.RouteList)
	if one := new(routev3.Route); packed.MessageIs(one) {
		if err := packed.UnmarshalTo(one); err != nil {
			return unsaid("a route cannot be read")
		}
		list.Routes = []*routev3.Route{one}
	} else if err := packed.UnmarshalTo(list); err != nil {
		return unsaid("where a matcher of routes leads")
	}
	for _, route := range list.GetRoutes() {
		if err := understood(route); err != nil {
			return err
		}
		if ok, err := taken(route.GetMatch(), l.r, false); ok || err != nil {
			l.found = append(l.found, route)
			return err
		}
	}
	l.ended = l.ended || len(l.found) == 0
	return nil
}

func (l *lookup) predicate(p *xdsmatcherv3.Matcher_MatcherList_Predicate) (bool, error) {
	switch t := p.GetMatchType().(type) {
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_:
		value, there, err := l.input(t.SinglePredicate.GetInput())
		if err != nil || !there {
			return false, err
		}
		if t.SinglePredicate.GetValueMatch() == nil {
			return false, unsaid("a condition of a route")
		}
		return valueMatches(t.SinglePredicate.GetValueMatch(), value)
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher:
		for _, one := range t.OrMatcher.GetPredicate() {
			if ok, err := l.predicate(one); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher:
		for _, one := range t.AndMatcher.GetPredicate() {
			if ok, err := l.predicate(one); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher:
		ok, err := l.predicate(t.NotMatcher)
		return !ok, err
	}
	return false, unsaid("a condition of a route")
}

// input reads what a condition is about, and whether it is there.
func (l *lookup) input(in *xdscorev3.TypedExtensionConfig) (value string, there bool, err error) {
	header, state := new(matcherv3.HttpRequestHeaderMatchInput), new(inputsv3.FilterStateInput)
	switch packed := in.GetTypedConfig(); {
	case packed.MessageIs(header):
		if err := packed.UnmarshalTo(header); err != nil {
			return "", false, unsaid("a condition of a route")
		}
		if err := l.r.readable(header.GetHeaderName()); err != nil {
			return "", false, err
		}
		value, there = l.r.value(header.GetHeaderName())
		return value, there, nil
	case packed.MessageIs(state):
		if err := packed.UnmarshalTo(state); err != nil {
			return "", false, unsaid("a condition of a route")
		}
		value, there = l.facts[state.GetKey()]
		return value, there, nil
	}
	return "", false, unsaid("the condition %s of a route", in.GetName())
}

// valueMatches translates a matcher of texts of xDS into Envoy's, which are alike.
func valueMatches(m *xdsmatcherv3.StringMatcher, value string) (bool, error) {
	own := &matcherv3.StringMatcher{IgnoreCase: m.GetIgnoreCase()}
	switch p := m.GetMatchPattern().(type) {
	case *xdsmatcherv3.StringMatcher_Exact:
		own.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: p.Exact}
	case *xdsmatcherv3.StringMatcher_Prefix:
		own.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: p.Prefix}
	case *xdsmatcherv3.StringMatcher_Suffix:
		own.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: p.Suffix}
	case *xdsmatcherv3.StringMatcher_Contains:
		own.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: p.Contains}
	case *xdsmatcherv3.StringMatcher_SafeRegex:
		own.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: p.SafeRegex.GetRegex()}}
	default:
		return false, unsaid("a condition of a route")
	}
	return text(own, value)
}

// requestedName is what stands for the server name in the facts of a connection.
const requestedName = "%REQUESTED_SERVER_NAME%"

// remember keeps the facts of a connection that a listener makes filter state of.
func (p *Proxy) remember(out *Passage, packed *anypb.Any, c Connection) error {
	config := new(statev3.Config)
	if err := packed.UnmarshalTo(config); err != nil {
		return unsaid("what the listener remembers of connections")
	}
	out.facts = map[string]string{}
	for _, f := range config.GetOnNewConnection() {
		format := f.GetFormatString().GetTextFormatSource().GetInlineString()
		value := strings.ReplaceAll(format, requestedName, strings.ToLower(c.ServerName))
		if group, is := directing.GroupOf(f); is {
			l, err := p.Redirected(context.Background(), true)
			if err != nil || l == nil {
				return unsaid("to which port the connection was redirected")
			}
			value = directing.Cluster(group, l.proto.GetAddress().GetSocketAddress().GetPortValue())
		}
		if f.GetObjectKey() == "" || strings.Contains(value, "%") {
			return unsaid("what the listener remembers of connections")
		}
		out.facts[f.GetObjectKey()] = value
	}
	return nil
}
