package gateway

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/resource"
)

// request is a request as a listener's router sees it.
type request struct {
	method, scheme, host, path string
	issuing                    bool
}

// evaluate decides a request as Envoy does, for the parts of its route
// configuration that plans emit, and names the outcome in words.
func evaluate(t tb, set *resource.Set, r request) string {
	t.Helper()
	var config routev3.RouteConfiguration
	if err := proto.Unmarshal(set.Get(resource.Route, TableName).Body, &config); err != nil {
		t.Fatal(err)
	}
	return decide(t, &config, r)
}

func decide(t tb, config *routev3.RouteConfiguration, r request) string {
	t.Helper()
	host, _, _ := strings.Cut(strings.ToLower(r.host), ":")
	var vhost *routev3.VirtualHost
	for _, v := range config.VirtualHosts {
		if v.Domains[0] == host || (v.Domains[0] == "*" && vhost == nil) {
			vhost = v
		}
	}
	routes := vhost.Routes
	if vhost.Matcher != nil {
		on, longest := vhost.Matcher.OnNoMatch, -1
		for prefix, m := range vhost.Matcher.GetMatcherTree().GetPrefixMatchMap().Map {
			if strings.HasPrefix(r.path, prefix) && len(prefix) > longest {
				on, longest = m, len(prefix)
			}
		}
		var list routev3.RouteList
		if err := on.GetAction().TypedConfig.UnmarshalTo(&list); err != nil {
			t.Fatal(err)
		}
		routes = list.Routes
	}
	for _, route := range routes {
		if matches(t, route.Match, r) {
			return outcome(t, route, r)
		}
	}
	return "nothing"
}

func matches(t tb, m *routev3.RouteMatch, r request) bool {
	t.Helper()
	path, _, _ := strings.Cut(r.path, "?")
	switch p := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Path:
		if path != p.Path {
			return false
		}
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(path, p.Prefix) {
			return false
		}
	default:
		t.Fatalf("unexpected match %v", m)
	}
	values := map[string]string{":method": r.method, ":scheme": r.scheme, ":authority": r.host}
	for _, h := range m.Headers {
		switch {
		case h.GetPresentMatch():
			if h.Name != contract.HeaderOAuthPlugin {
				t.Fatalf("unexpected header %v", h)
			}
			if !r.issuing {
				return false
			}
		case h.GetStringMatch().GetSuffix() != "":
			if !strings.HasSuffix(values[h.Name], h.GetStringMatch().GetSuffix()) {
				return false
			}
		case values[h.Name] != h.GetStringMatch().GetExact():
			return false
		}
	}
	return true
}

func outcome(t tb, route *routev3.Route, r request) string {
	t.Helper()
	filter := ""
	if len(route.TypedPerFilterConfig) > 0 {
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
		return "to " + route.Name + " " + rewritten(route, a.Route, r.path) + filter
	default:
		t.Fatalf("unexpected action %v", route)
		return ""
	}
}

// rewritten applies a route's rewrite to the path without its query.
func rewritten(route *routev3.Route, a *routev3.RouteAction, path string) string {
	path, query, asked := strings.Cut(path, "?")
	if asked {
		query = "?" + query
	}
	switch {
	case a.RegexRewrite != nil:
		re := regexp.MustCompile(a.RegexRewrite.Pattern.Regex)
		groups := re.FindStringSubmatch(path)
		pairs := []string{`\\`, `\`}
		for i, g := range groups {
			pairs = append(pairs, fmt.Sprintf(`\%d`, i), g)
		}
		return strings.NewReplacer(pairs...).Replace(a.RegexRewrite.Substitution) + query
	case a.PrefixRewrite != "" && route.Match.GetPath() != "":
		return a.PrefixRewrite + query
	case a.PrefixRewrite != "":
		return a.PrefixRewrite + strings.TrimPrefix(path, route.Match.GetPrefix()) + query
	default:
		return path + query
	}
}
