package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/resource"
)

// oracleRoute is a route with what the oracle needs to know about it.
type oracleRoute struct {
	id      string
	created int64
	spec    *gateway.Route
	base    string // of its service
	down    bool   // its service is disabled
}

// oracle implements the routing rules as they are written, one request at a
// time, without any of the code under test.
func oracle(routes []oracleRoute, r request) string {
	bare, _, _ := strings.Cut(r.path, "?")
	host, _, _ := strings.Cut(r.host, ":")
	var best *oracleRoute
	bestPath := ""
	for i := range routes {
		c := &routes[i]
		if c.down || !fits(c.spec.Methods, r.method) || !fits(c.spec.Hosts, host) {
			continue
		}
		for _, p := range slices.Concat(c.spec.Paths, none(c.spec.Paths)) {
			if strings.HasPrefix(bare, p) && (best == nil || wins(c, p, best, bestPath)) {
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

// none stands for a missing list of paths.
func none(paths []string) []string {
	if len(paths) == 0 {
		return []string{""}
	}
	return nil
}

func fits(set []string, v string) bool { return len(set) == 0 || slices.Contains(set, v) }

func wins(a *oracleRoute, aPath string, b *oracleRoute, bPath string) bool {
	kinds := func(r *gateway.Route) (n int) {
		for _, l := range []int{len(r.Methods), len(r.Hosts), len(r.Paths)} {
			if l > 0 {
				n++
			}
		}
		return n
	}
	if x, y := kinds(a.spec), kinds(b.spec); x != y {
		return x > y
	}
	if x, y := len(a.spec.Hosts) > 0, len(b.spec.Hosts) > 0; x != y {
		return x
	}
	if len(aPath) != len(bPath) {
		return len(aPath) > len(bPath)
	}
	if a.created != b.created {
		return a.created < b.created
	}
	return a.id < b.id
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
	rest := req[len(path):]
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

var (
	someHosts   = []string{"a.test", "b.test"}
	someMethods = []string{"GET", "POST"}
	somePaths   = []string{"/", "/a", "/a/", "/ab", "/a/b", "/a/b/", "/a.", "/b+c"}
	someBases   = []string{"", "/", "/s", "/s/", "/s/t", `/s\1`}
	segments    = []string{"a", "ab", "a.", "a..", "a.b", "b", "b+c", "a..b", "abc"}
)

func drawRoute(t *rapid.T, n int) oracleRoute {
	pick := func(from []string, label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	r := oracleRoute{
		id: id(2, n), created: rapid.Int64Range(1, 3).Draw(t, "created"), base: rapid.SampledFrom(someBases).Draw(t, "base"),
		down: rapid.IntRange(0, 5).Draw(t, "down") == 0,
		spec: &gateway.Route{
			Protocols: rapid.SampledFrom([][]string{{"http", "https"}, {"https"}, {"http"}}).Draw(t, "protocols"),
			Hosts:     pick(someHosts, "hosts"), Methods: pick(someMethods, "methods"), Paths: pick(somePaths, "paths"),
			StripPath: rapid.Bool().Draw(t, "strip"), HTTPSRedirectStatusCode: 426,
		},
	}
	if len(r.spec.Hosts)+len(r.spec.Methods)+len(r.spec.Paths) == 0 {
		r.spec.Paths = []string{"/"}
	}
	if rapid.IntRange(0, 4).Draw(t, "bound") > 0 {
		r.spec.Service = id(1, n)
	} else {
		r.down = false
	}
	return r
}

func drawRequest(t *rapid.T) request {
	path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(segments), 0, 3).Draw(t, "segments"), "/")
	if path != "/" && rapid.Bool().Draw(t, "slash") {
		path += "/"
	}
	return request{
		method: rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method"),
		scheme: rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme"),
		host:   rapid.SampledFrom([]string{"a.test", "b.test:8000", "c.test"}).Draw(t, "host"),
		path:   path + rapid.SampledFrom([]string{"", "?", "?x=/a"}).Draw(t, "query"),
	}
}

func (w *world) putOracle(r oracleRoute, n int) {
	if r.spec.Service != "" {
		s := serviceSpec(r.base)
		s.Enabled = !r.down
		w.put(gateway.Services, id(1, n), 1, s)
	}
	w.put(gateway.Routes, r.id, r.created, r.spec)
}

// TestDecisionsEqualTheRules compares lists and trees with the oracle.
func TestDecisionsEqualTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		var routes []oracleRoute
		for n := range rapid.IntRange(0, 12).Draw(rt, "routes") {
			r := drawRoute(rt, n)
			routes = append(routes, r)
			w.putOracle(r, n)
		}
		g := w.state()
		list, forest := NewPlanner(testParams), NewPlanner(testParams)
		list.treeFrom, forest.treeFrom = 1<<30, 0
		sets := []Result{list.Plan(g), forest.Plan(g)}
		for range 20 {
			req := drawRequest(rt)
			want := oracle(routes, req)
			for form, result := range sets {
				if got := evaluate(rt, result.Set, req); got != want {
					rt.Fatalf("form %d: %+v\n got %s\nwant %s", form, req, got, want)
				}
			}
		}
	})
}

// TestIncrementalEqualsFromNothing edits at random and compares a planner with
// memory with one without.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		p := NewPlanner(testParams)
		for range rapid.IntRange(1, 12).Draw(rt, "edits") {
			n := rapid.IntRange(0, 4).Draw(rt, "n")
			switch rapid.IntRange(0, 4).Draw(rt, "edit") {
			case 0:
				w.drop(gateway.Routes, id(2, n))
			case 1:
				w.drop(gateway.Plugins, id(3, 0))
			case 2:
				w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(rt, "", "", func(c *gateway.OAuth2Config) {
					c.Realm = fmt.Sprint(n)
				}))
			default:
				w.putOracle(drawRoute(rt, n), n)
			}
			g := w.state()
			mine, fresh := p.Plan(g).Set, NewPlanner(testParams).Plan(g).Set
			for _, kind := range resource.Types {
				if d := mine.Diff(fresh, kind); !d.Empty() {
					rt.Fatalf("%s differs from a plan from nothing: %v removed %v", kind, d.Changed, d.Removed)
				}
			}
		}
	})
}
