package edge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// oracleRoute is a route with what the oracle needs to know about it.
type oracleRoute struct {
	id      string
	created int64
	spec    *gateway.Route
	base    string // of its service
	down    bool   // its service is disabled
}

// oracle implements the routing rules as they are written, one request at a time, without any
// of the code under test.
func oracle(routes []oracleRoute, r request) string {
	bare, _, _ := strings.Cut(r.path, "?")
	var best *oracleRoute
	bestPath := ""
	for i := range routes {
		c := &routes[i]
		if c.down || !suits(c.spec, r) {
			continue
		}
		for _, p := range slices.Concat(c.spec.Paths, none(c.spec.Paths)) {
			if oraclePath(p, bare) && (best == nil || wins(c, p, best, bestPath)) {
				best, bestPath = c, p
			}
		}
	}
	switch {
	case best == nil:
		return "404 "
	case slices.Equal(best.spec.Protocols, []string{"https"}) && r.scheme == "http":
		return "426 " + best.id
	case best.spec.Service == "":
		return "503 " + best.id
	}
	return "to " + best.id + " " + oracleURL(best.base, bestPath, best.spec.StripPath, bare) + strings.TrimPrefix(r.path, bare)
}

// none returns one empty path if there are no paths.
func none(paths []string) []string {
	if len(paths) == 0 {
		return []string{""}
	}
	return nil
}

// suits compares everything but the path.
func suits(c *gateway.Route, r request) bool {
	if len(c.Methods) > 0 && !slices.Contains(c.Methods, r.method) {
		return false
	}
	if len(c.Hosts) > 0 && !slices.ContainsFunc(c.Hosts, func(h string) bool { return oracleHost(h, r) }) {
		return false
	}
	if len(c.SNIs) > 0 && r.scheme == "https" && !slices.Contains(c.SNIs, strings.ToLower(r.sni)) {
		return false
	}
	for name, values := range c.Headers {
		sent, ok := r.headers[strings.ToLower(name)]
		if !ok || !slices.ContainsFunc(values, func(v string) bool {
			if pattern, is := strings.CutPrefix(v, "~*"); is {
				return regexp.MustCompile("(?i)" + pattern).MatchString(sent)
			}
			return strings.EqualFold(v, sent)
		}) {
			return false
		}
	}
	return true
}

func oracleHost(pattern string, r request) bool {
	name, port, hasPort := strings.Cut(strings.ToLower(pattern), ":")
	asked, askedPort, _ := strings.Cut(strings.ToLower(r.host), ":")
	if askedPort == "" {
		askedPort = fmt.Sprint(r.port)
	}
	if hasPort && port != askedPort {
		return false
	}
	switch {
	case strings.HasPrefix(name, "*"):
		return strings.HasSuffix(asked, name[1:])
	case strings.HasSuffix(name, "*"):
		return strings.HasPrefix(asked, name[:len(name)-1])
	}
	return asked == name
}

func oraclePath(path, asked string) bool {
	if pattern, ok := strings.CutPrefix(path, "~"); ok {
		return regexp.MustCompile("^(?:" + pattern + ")").MatchString(asked)
	}
	return strings.HasPrefix(asked, path)
}

func wins(a *oracleRoute, aPath string, b *oracleRoute, bPath string) bool {
	kinds := func(r *gateway.Route) (n int) {
		for _, l := range []int{len(r.Methods), len(r.Hosts), len(r.Headers), len(r.Paths), len(r.SNIs)} {
			if l > 0 {
				n++
			}
		}
		return n
	}
	plain := func(r *gateway.Route) bool {
		return len(r.Hosts) > 0 && !strings.Contains(strings.Join(r.Hosts, ""), "*")
	}
	aRegex, bRegex := strings.HasPrefix(aPath, "~"), strings.HasPrefix(bPath, "~")
	switch {
	case kinds(a.spec) != kinds(b.spec):
		return kinds(a.spec) > kinds(b.spec)
	case plain(a.spec) != plain(b.spec):
		return plain(a.spec)
	case len(a.spec.Headers) != len(b.spec.Headers):
		return len(a.spec.Headers) > len(b.spec.Headers)
	case aRegex != bRegex:
		return aRegex
	case aRegex && a.spec.RegexPriority != b.spec.RegexPriority:
		return a.spec.RegexPriority > b.spec.RegexPriority
	case !aRegex && len(aPath) != len(bPath):
		return len(aPath) > len(bPath)
	case a.created != b.created:
		return a.created < b.created
	case a.id != b.id:
		return a.id < b.id
	}
	return aPath < bPath // two expressions of one route
}

// oracleRest returns the rest of a path after the path of the route is stripped.
func oracleRest(path, req string) string {
	pattern, ok := strings.CutPrefix(path, "~")
	if !ok {
		return req[len(path):]
	}
	if whole := regexp.MustCompile(`^(?:` + pattern + `)(\.\.?)?$`); whole.MatchString(req) {
		return ""
	}
	return req[len(regexp.MustCompile("^(?:"+pattern+")").FindString(req)):]
}

func oracleURL(base, path string, strip bool, req string) string {
	if base == "" {
		base = "/"
	}
	inner := strings.TrimSuffix(base, "/")
	if !strip || path == "" {
		switch {
		case base == "/":
			return req
		case req == "/":
			return base
		}
		return inner + req
	}
	rest := oracleRest(path, req)
	switch {
	case rest == "." || rest == "..":
		rest = ""
	case strings.HasPrefix(rest, "./"):
		rest = rest[2:]
	case strings.HasPrefix(rest, "../"):
		rest = rest[3:]
	}
	switch {
	case base == "/":
		return "/" + strings.TrimPrefix(rest, "/")
	case rest != "":
		return inner + "/" + strings.TrimPrefix(rest, "/")
	case req == "/":
		return base
	case strings.HasSuffix(req, "/"):
		return inner + "/"
	default:
		return inner
	}
}

// Routes are drawn from these. ports are the two ports of the listeners.
var (
	someMethods = []string{"GET", "POST"}
	somePaths   = []string{
		"/", "/a", "/a/", "/ab", "/a/b", "/a/b/", "/a.", "/b+c", "/a/b/c",
		"~/a", "~/a$", "~/(?<x>[a-b]+)/b", "~/a|/ab/", "~/[^/]+/b$", "~/.*c", `~/\w+\b`, "~/(?i)AB", "~/a/?$|/b", "~/a/(b|c)?",
	}
	someBases   = []string{"", "/", "/s", "/s/", "/s/t", `/s\1`}
	someHeaders = map[string][]string{"X-One": {"v1", "V2", "~*^w[0-9]$", "a,b"}, "x-two": {"v1", "~*v|é", "~*(a|b)+c"}}
	someSNIs    = []string{"s1.test", "s2.test"}
	segments    = []string{"a", "ab", "a.", "a..", "a.b", "b", "b+c", "a..b", "abc", "AB", "c", "bb"}
)

func someHosts(ports [2]int) []string {
	return []string{
		"a.test", "B.test", "x.a.test", "*.test", "*.a.test", "*.a.example", "a.*", "x.*", "x.a.*", "*.test:8000",
		fmt.Sprintf("a.test:%d", ports[0]), fmt.Sprintf("a.test:%d", ports[1]), fmt.Sprintf("x.*:%d", ports[0]), "b.test:8000",
	}
}

func drawRoute(t *rapid.T, n int, ports [2]int) oracleRoute {
	pick := func(from []string, label string) []string {
		if rapid.Bool().Draw(t, label+" set") {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	r := oracleRoute{
		id: id(2, n), created: rapid.Int64Range(1, 3).Draw(t, "created"), base: rapid.SampledFrom(someBases).Draw(t, "base"),
		down: rapid.IntRange(0, 9).Draw(t, "down") == 0,
		spec: &gateway.Route{
			Protocols: rapid.SampledFrom([][]string{{"http", "https"}, {"http", "https"}, {"https"}, {"http"}}).Draw(t, "protocols"),
			Hosts:     pick(someHosts(ports), "hosts"), Methods: pick(someMethods, "methods"),
			Paths: rapid.SliceOfNDistinct(rapid.SampledFrom(somePaths), 0, 2, rapid.ID[string]).Draw(t, "paths"),
			SNIs:  pick(someSNIs, "snis"), RegexPriority: rapid.IntRange(0, 1).Draw(t, "priority"),
			StripPath: rapid.Bool().Draw(t, "strip"), HTTPSRedirectStatusCode: 426,
		},
	}
	for _, name := range slices.Sorted(maps.Keys(someHeaders)) {
		if v := pick(someHeaders[name], name); len(v) > 0 {
			if r.spec.Headers == nil {
				r.spec.Headers = map[string][]string{}
			}
			r.spec.Headers[name] = v
		}
	}
	if len(r.spec.Hosts)+len(r.spec.Methods)+len(r.spec.Paths)+len(r.spec.Headers)+len(r.spec.SNIs) == 0 {
		r.spec.Paths = []string{"/"}
	}
	if rapid.IntRange(0, 4).Draw(t, "bound") > 0 {
		r.spec.Service = id(1, n)
	} else {
		r.down = false
	}
	return r
}

func drawRequest(t *rapid.T, ports [2]int) request {
	path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(segments), 0, 3).Draw(t, "segments"), "/")
	if path != "/" && rapid.Bool().Draw(t, "slash") {
		path += "/"
	}
	side := rapid.IntRange(0, 1).Draw(t, "side")
	r := request{
		method: rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method"),
		scheme: []string{"http", "https"}[side], port: ports[side],
		host: rapid.SampledFrom([]string{
			"a.test", "A.test:8000", "b.test:8000", "B.test", "x.a.test", "y.x.a.test:1", "a.example", "x.a.example", "c.example", "x.example",
			fmt.Sprintf("a.test:%d", ports[0]), fmt.Sprintf("X.b:%d", ports[1]), "y.test:8000",
		}).Draw(t, "host"),
		path:    path + rapid.SampledFrom([]string{"", "", "?", "?x=/a", "?b/c", "?/b"}).Draw(t, "query"),
		headers: map[string]string{},
	}
	if side == 1 {
		r.sni = rapid.SampledFrom([]string{"s1.test", "S2.test", "other.test", ""}).Draw(t, "sni")
	}
	for _, name := range []string{"x-one", "x-two"} {
		if v := rapid.SampledFrom([]string{"", "", "v1", "V2", "v2", "w3", "W33", "a,b", "é", "xabcx"}).Draw(t, name); v != "" {
			r.headers[name] = v
		}
	}
	return r
}

// drawn is a set of routes with requests.
type drawn struct {
	routes   []oracleRoute
	requests []request
}

// draw draws routes and requests.
func draw(t *rapid.T, ports [2]int) drawn {
	var d drawn
	for n := range rapid.IntRange(0, 14).Draw(t, "routes") {
		d.routes = append(d.routes, drawRoute(t, n, ports))
	}
	for range 40 {
		d.requests = append(d.requests, drawRequest(t, ports))
	}
	return d
}
