package selection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/selection"
)

// described makes a resource from the members of its document.
func document(t *testing.T, k *model.Kind, name, members string) *model.Resource {
	t.Helper()
	_, spec, err := model.DecodeDocument(k, []byte(members))
	if err != nil {
		t.Fatal(err)
	}
	if vs := k.Document.Validate(spec); len(vs) > 0 {
		t.Fatalf("%s: %v", name, vs)
	}
	return &model.Resource{Kind: k, Name: name, Spec: spec}
}

func gatewayOf(t *testing.T, name, selector, listeners string) *model.Resource {
	t.Helper()
	return document(t, mesh.MeshGateways, name, `{"selectors":[{"match":{`+selector+`}}],"tags":{"env":"prod","site":"a"},"conf":{"listeners":[`+listeners+`]}}`)
}

// httpRoute makes a route to a backend that is named like the route.
func httpRoute(t *testing.T, name, selector, hostnames, matches string) *model.Resource {
	t.Helper()
	return document(t, mesh.MeshGatewayRoutes, name, `{"selectors":[{"match":{`+selector+`}}],"conf":{"http":{"hostnames":[`+hostnames+`],"rules":[
		{"matches":[`+matches+`],"backends":[{"weight":1,"destination":{"mesh.io/service":"`+name+`"}}]}]}}}`)
}

// entriesOf describes a gateway: one line for each listener, host and entry.
func entriesOf(g *selection.Gateway) string {
	if g == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", g.Chosen.Name)
	for _, l := range g.Listeners {
		fmt.Fprintf(&b, "%s %d %s\n", l.Spec.Protocol, l.Spec.Port, l.Host)
		for _, h := range l.Hosts {
			fmt.Fprintf(&b, "  %s:", h.Name)
			for _, e := range h.Entries {
				kind, path := selection.PathOf(e.Match)
				fmt.Fprintf(&b, " %s(%s %s)", e.Route.Name, strings.ToLower(kind), path)
			}
			b.WriteByte('\n')
		}
		for _, s := range l.Shares {
			fmt.Fprintf(&b, "  to %s by %s\n", s.Backend.Destination, s.Route.Name)
		}
	}
	return b.String()
}

const (
	edge    = `"mesh.io/service":"edge"`
	anyPath = `{"path":{"match":"PREFIX","value":"/"}}`
)

// TestGateway: which MeshGateway a gateway has, which routes its listeners have, for which hosts,
// and in which order.
func TestGateway(t *testing.T) {
	for name, c := range map[string]struct {
		resources []*model.Resource
		want      string
	}{
		"none matches": {[]*model.Resource{gatewayOf(t, "other", `"mesh.io/service":"other"`, `{"port":80,"protocol":"TCP"}`)}, "none"},
		"best selector": {[]*model.Resource{
			gatewayOf(t, "any", `"mesh.io/service":"*"`, `{"port":80,"protocol":"TCP"}`),
			gatewayOf(t, "exact", edge, `{"port":81,"protocol":"TCP"}`),
			gatewayOf(t, "more", edge+`,"team":"*"`, `{"port":82,"protocol":"TCP"}`),
		}, "more\nTCP 82 *\n"},
		"a host for each listener, and those of routes on any host": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP"},{"port":80,"protocol":"HTTP","hostname":"foo.example.com"},{"port":443,"protocol":"HTTPS","hostname":"*.example.com","tls":{"mode":"TERMINATE","certificates":[{"secret":"c"}]}}`),
			httpRoute(t, "all", edge, ``, anyPath),
			httpRoute(t, "bar", edge, `"bar.example.com"`, anyPath),
			httpRoute(t, "foo", edge, `"foo.example.com"`, anyPath),
			httpRoute(t, "wild", edge, `"*.example.com"`, anyPath),
		}, `g
HTTP 80 *
  *: all(prefix /)
  *.example.com: all(prefix /) wild(prefix /)
  bar.example.com: all(prefix /) bar(prefix /) wild(prefix /)
HTTP 80 foo.example.com
  foo.example.com: all(prefix /) foo(prefix /) wild(prefix /)
HTTPS 443 *.example.com
  *.example.com: all(prefix /) wild(prefix /)
  bar.example.com: all(prefix /) bar(prefix /) wild(prefix /)
  foo.example.com: all(prefix /) foo(prefix /) wild(prefix /)
`},
		"a name and the wildcard above it, of one length or not": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP","hostname":"*.example.com"},{"port":80,"protocol":"HTTP","hostname":"a.example.com"},{"port":80,"protocol":"HTTP","hostname":"*.b.example.com"}`),
			httpRoute(t, "a", edge, `"a.example.com","x.b.example.com"`, anyPath),
		}, `g
HTTP 80 *.b.example.com
  *.b.example.com:
  x.b.example.com: a(prefix /)
HTTP 80 *.example.com
  *.example.com:
HTTP 80 a.example.com
  a.example.com: a(prefix /)
`},
		"a route without a listener for its host": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP","hostname":"*.a.example"}`),
			httpRoute(t, "elsewhere", edge, `"b.example","a.example"`, anyPath),
			httpRoute(t, "deep", edge, `"x.y.a.example"`, anyPath),
		}, "g\nHTTP 80 *.a.example\n  *.a.example:\n  x.y.a.example: deep(prefix /)\n"},
		"tags of dataplane, gateway and listener": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP","tags":{"site":"b"}},{"port":81,"protocol":"HTTP"}`),
			httpRoute(t, "b", edge+`,"site":"b","env":"prod","team":"web"`, ``, anyPath),
			httpRoute(t, "a", edge+`,"site":"a"`, ``, anyPath),
		}, "g\nHTTP 80 *\n  *: b(prefix /)\nHTTP 81 *\n  *: a(prefix /)\n"},
		"order": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP"}`),
			httpRoute(t, "r", edge, ``, `{"path":{"match":"REGEX","value":"/a.*long"}},{"path":{"match":"PREFIX","value":"/a"}},{"path":{"value":"/a"}},{"path":{"match":"PREFIX","value":"/a/b/"}},{"method":"GET"}`),
			httpRoute(t, "q", edge, ``, `{"path":{"match":"PREFIX","value":"/a"},"headers":[{"name":"x","value":"1"}]},{"path":{"match":"PREFIX","value":"/a"},"method":"GET"},
				{"path":{"match":"PREFIX","value":"/a"},"queryParameters":[{"name":"x","value":"1"}]},{"path":{"match":"PREFIX","value":"/a"}}`),
		}, "g\nHTTP 80 *\n  *: r(exact /a) r(prefix /a/b) q(prefix /a) q(prefix /a) q(prefix /a) q(prefix /a) r(prefix /a) r(prefix /) r(regex /a.*long)\n"},
		"connections": {[]*model.Resource{
			gatewayOf(t, "g", edge, `{"port":81,"protocol":"TCP"},{"port":80,"protocol":"HTTP"}`),
			httpRoute(t, "http", edge, ``, anyPath),
			document(t, mesh.MeshGatewayRoutes, "tcp", `{"selectors":[{"match":{`+edge+`}}],"conf":{"tcp":{"rules":[{"backends":[{"weight":1,"destination":{"mesh.io/service":"db"}},{"weight":2,"destination":{"mesh.io/service":"db","version":"v2"}}]}]}}}`),
		}, "g\nHTTP 80 *\n  *: http(prefix /)\nTCP 81 *\n  to mesh.io/service=db by tcp\n  to mesh.io/service=db,version=v2 by tcp\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshWith(t, nil, c.resources...)
			got := entriesOf(selection.GatewayOf(m, mesh.Tags{mesh.TagService: "edge", "team": "web"}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("gateway (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrecedence: within one path, a method counts before headers, and these before parameters.
func TestPrecedence(t *testing.T) {
	m := meshWith(t, nil, gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP"}`), httpRoute(t, "r", edge, ``,
		`{"path":{"match":"PREFIX","value":"/a"}},
		{"path":{"match":"PREFIX","value":"/a"},"queryParameters":[{"name":"x","value":"1"}]},
		{"path":{"match":"PREFIX","value":"/a"},"headers":[{"name":"x","value":"1"}]},
		{"path":{"match":"PREFIX","value":"/a"},"headers":[{"name":"x","value":"1"},{"name":"y","value":"1"}]},
		{"path":{"match":"PREFIX","value":"/a"},"method":"GET"}`))
	var got []string
	for _, e := range selection.GatewayOf(m, mesh.Tags{mesh.TagService: "edge"}).Listeners[0].Hosts[0].Entries {
		got = append(got, fmt.Sprintf("%s %d %d", e.Match.Method, len(e.Match.Headers), len(e.Match.QueryParameters)))
	}
	if diff := cmp.Diff([]string{"GET 0 0", " 2 0", " 1 0", " 0 1", " 0 0"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestCovers: a wildcard covers names below it, not its own name, and no wider one.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		name, other string
		want        bool
	}{
		{"*", "*", true}, {"*", "a", true}, {"*.a", "b.a", true}, {"*.a", "c.b.a", true}, {"*.a", "*.b.a", true}, {"*.a", "*.a", true},
		{"*.a", "a", false}, {"*.a", "ba", false}, {"*.b.a", "*.a", false}, {"*.a", "*", false}, {"b.a", "*.a", false}, {"b.a", "b.a", true},
	} {
		if got := selection.Covers(c.name, c.other); got != c.want {
			t.Errorf("%s covers %s: %t", c.name, c.other, got)
		}
	}
}

// TestOnGateway: a policy is chosen by the tags of the listener and by all tags of the backend.
func TestOnGateway(t *testing.T) {
	made := func(name string, created int64, source, destination string) *model.Resource {
		r := document(t, timeout.Kind, name, `{"sources":[{"match":{`+edge+`}}],"destinations":[{"match":{"mesh.io/service":"*"}}],"conf":{"connectTimeout":"1s"}}`)
		spec := r.Spec.(*timeout.Spec)
		for k, v := range map[string]string{"source": source, "destination": destination} {
			tag, value, ok := strings.Cut(v, "=")
			if ok && k == "source" {
				spec.Sources[0].Match[tag] = value
			} else if ok {
				spec.Destinations[0].Match[tag] = value
			}
		}
		r.Created = time.Unix(created, 0)
		return r
	}
	m := meshWith(t, []*model.Kind{timeout.Kind, faultinjection.Kind}, made("all", 5, "", ""), made("version", 1, "", "version=v1"), made("listener", 1, "port=http", "version=v1"))
	chosen := func(port, version string) string {
		tags := mesh.Tags{mesh.TagService: "backend"}
		if version != "" {
			tags["version"] = version
		}
		got := selection.OnGateway(nil, m, timeout.Policy, mesh.Tags{mesh.TagService: "edge", "port": port}, tags)
		if len(got) != 1 {
			return fmt.Sprint(len(got))
		}
		return got[0].Name
	}
	for _, c := range [][3]string{{"", "", "all"}, {"", "v2", "all"}, {"", "v1", "version"}, {"http", "v1", "listener"}, {"http", "", "all"}} {
		if got := chosen(c[0], c[1]); got != c[2] {
			t.Errorf("on port %q for version %q: %s, want %s", c[0], c[1], got, c[2])
		}
	}
	var none []*view.Policy
	if got := selection.OnGateway(none, m, trafficroute.Policy, mesh.Tags{mesh.TagService: "edge"}, mesh.Tags{mesh.TagService: "backend"}); got != nil {
		t.Errorf("a TrafficRoute is chosen: %v", got)
	}
}

// TestFirstSourceOnGateway: of several sources of a policy the first one that matches a listener says
// how good the match is, wherever a better one stands.
func TestFirstSourceOnGateway(t *testing.T) {
	const all, door, both = `{"match":{"mesh.io/service":"*"}}`, `{"match":{"mesh.io/service":"edge"}}`, `{"match":{"mesh.io/service":"edge","port":"http"}}`
	const elsewhere = `{"match":{"mesh.io/service":"edge","port":"https","site":"a"}}`
	made := func(name string, created int64, sources string) *model.Resource {
		r := document(t, timeout.Kind, name, `{"sources":[`+sources+`],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":{"connectTimeout":"1s"}}`)
		r.Created = time.Unix(created, 0)
		return r
	}
	for name, c := range map[string]struct{ old, young, want string }{
		"the wide one is first":              {door, all + "," + both, "old"},
		"the narrow one is first":            {door, both + "," + all, "young"},
		"the narrow one of the old is first": {both + "," + all, door, "old"},
		"the wide one of the old is first":   {all + "," + both, door, "young"},
		"what does not match does not count": {door, elsewhere + "," + all + "," + both, "old"},
		"nor does it in the old":             {elsewhere + "," + both, door, "old"},
		"the same in front":                  {door + "," + both, door, "young"},
		"nothing of the young matches":       {all, elsewhere, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshWith(t, []*model.Kind{timeout.Kind}, made("old", 1, c.old), made("young", 2, c.young))
			got := selection.OnGateway(nil, m, timeout.Policy, mesh.Tags{mesh.TagService: "edge", "port": "http"}, mesh.Tags{mesh.TagService: "backend"})
			if len(got) != 1 || got[0].Name != c.want {
				t.Errorf("%v is chosen, not %s", got, c.want)
			}
		})
	}
}

// manyHosts are routes that each name some hosts, and each of which has a match.
func manyHosts(t *testing.T, routes, hosts int) (out []*model.Resource) {
	t.Helper()
	for i := range routes {
		var names []string
		for j := range hosts {
			names = append(names, fmt.Sprintf(`"h%d-%d.example"`, i, j))
		}
		out = append(out, httpRoute(t, fmt.Sprintf("r%d", i), edge, strings.Join(names, ","), anyPath))
	}
	return out
}

// manyMatches is a route for all hosts with n matches.
func manyMatches(t *testing.T, n int, value string) *model.Resource {
	t.Helper()
	rule := func(i int) string {
		var matches []string
		for j := range min(64, n-i) {
			matches = append(matches, fmt.Sprintf(`{"path":{"value":"/%d"},"headers":[{"name":"x","value":"%s"}]}`, i+j, value))
		}
		return `{"matches":[` + strings.Join(matches, ",") + `],"backends":[{"destination":{"mesh.io/service":"all"}}]}`
	}
	var rules []string
	for i := 0; i < n; i += 64 {
		rules = append(rules, rule(i))
	}
	return document(t, mesh.MeshGatewayRoutes, "all", `{"selectors":[{"match":{`+edge+`}}],"conf":{"http":{"rules":[`+strings.Join(rules, ",")+`]}}}`)
}

// TestHostsShareEntries: hosts with the same routes have the same list, so that many names cost
// little.
func TestHostsShareEntries(t *testing.T) {
	m := meshWith(t, nil, append(manyHosts(t, 1, 20), manyMatches(t, 100, "a"), gatewayOf(t, "g", edge, `{"port":80,"protocol":"HTTP"}`))...)
	lists := map[*selection.GatewayEntry]int{}
	l := selection.GatewayOf(m, mesh.Tags{mesh.TagService: "edge"}).Listeners[0]
	for _, h := range l.Hosts {
		lists[&h.Entries[0]] = len(h.Entries)
	}
	if len(l.Hosts) != 21 || len(lists) != 2 || l.LeftOut != 0 {
		t.Errorf("%d hosts have %d lists, and %d entries are left out", len(l.Hosts), len(lists), l.LeftOut)
	}
}

// TestBudgetOfAGateway: a few documents do not make a gateway without bound. What is left out is
// counted, and no other route takes requests that are for it.
func TestBudgetOfAGateway(t *testing.T) {
	ports := func(n int) string {
		var ls []string
		for i := range n {
			ls = append(ls, fmt.Sprintf(`{"port":%d,"protocol":"HTTP"}`, 1000+i))
		}
		return strings.Join(ls, ",")
	}
	for name, c := range map[string]struct {
		listeners string
		resources []*model.Resource
		// asked is how many entries and hosts the documents ask for, together.
		asked int
		// closed says that the wildcard of a listener without room for its hosts answers nothing.
		closed bool
	}{
		"hosts and matches":      {ports(1), append(manyHosts(t, 4, 256), manyMatches(t, 4096, "a")), 1025*4096 + 1024, false},
		"listeners and matches":  {ports(256), []*model.Resource{manyMatches(t, 4096, "a")}, 256 * 4096, false},
		"long texts":             {ports(1), append(manyHosts(t, 1, 256), manyMatches(t, 63, strings.Repeat("a", 1024))), 257*63 + 256, false},
		"hosts beyond all bound": {ports(1), append(manyHosts(t, 40, 256), manyMatches(t, 1, "a")), 1<<13*2 + 1 + (40*256 - 1<<13), true},
		"shares": {`{"port":1,"protocol":"TCP"},{"port":2,"protocol":"TCP"},{"port":3,"protocol":"TCP"},{"port":4,"protocol":"TCP"},{"port":5,"protocol":"TCP"}`,
			[]*model.Resource{document(t, mesh.MeshGatewayRoutes, "tcp", `{"selectors":[{"match":{`+edge+`}}],"conf":{"tcp":{"rules":[`+
				strings.Repeat(`{"backends":[`+strings.Repeat(`{"destination":{"mesh.io/service":"b"}},`, 63)+`{"destination":{"mesh.io/service":"b"}}]},`, 63)+
				`{"backends":[{"destination":{"mesh.io/service":"b"}}]}]}}}`)}, 5 * (63*64 + 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshWith(t, nil, append(c.resources, gatewayOf(t, "g", edge, c.listeners))...)
			lists := map[*selection.GatewayEntry]int{}
			had, left, made := 0, 0, 0
			for _, l := range selection.GatewayOf(m, mesh.Tags{mesh.TagService: "edge"}).Listeners {
				had += len(l.Shares)
				left += l.LeftOut
				for _, h := range l.Hosts {
					had += len(h.Entries)
					if len(h.Entries) > 0 {
						lists[&h.Entries[0]] = len(h.Entries)
					}
					if c.closed && h.Name == mesh.AnyHost && len(h.Entries) > 0 {
						t.Error("a host that is left out is answered like any other")
					}
				}
			}
			for _, n := range lists {
				made += n
			}
			if had > selection.MostEntries || left == 0 || made > selection.MostEntries {
				t.Errorf("there are %d entries of %d that were made, and %d are left out", had, made, left)
			}
			if !c.closed && had+left != c.asked {
				t.Errorf("%d entries and %d that are left out are not %d", had, left, c.asked)
			}
		})
	}
}

// TestSharesOfRules: backends without weights share the connections of their own rule equally, and
// those of another rule with weights do not take all of them.
func TestSharesOfRules(t *testing.T) {
	m := meshWith(t, nil, gatewayOf(t, "g", edge, `{"port":1,"protocol":"TCP"}`), document(t, mesh.MeshGatewayRoutes, "tcp", `{"selectors":[{"match":{`+edge+`}}],"conf":{"tcp":{"rules":[
		{"backends":[{"weight":3,"destination":{"mesh.io/service":"a"}},{"destination":{"mesh.io/service":"b"}}]},
		{"backends":[{"destination":{"mesh.io/service":"c"}},{"destination":{"mesh.io/service":"d"}}]}]}}}`))
	var got []uint32
	for _, s := range selection.GatewayOf(m, mesh.Tags{mesh.TagService: "edge"}).Listeners[0].Shares {
		got = append(got, s.Weight)
	}
	if diff := cmp.Diff([]uint32{3, 0, 1, 1}, got); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}
