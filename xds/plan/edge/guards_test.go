package edge

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// dotSegments lists paths, and whether some server reads ".." in them.
var dotSegments = map[string]bool{
	"/sp..;a/admin": true, "/sp..;/admin": true, "/sp/..;x": true, "/sp/..;": true,
	"/sp/..%2fadmin": true, "/sp/..%2Fadmin": true, "/sp..%2fadmin": true, "/sp/..%5cadmin": true, "/sp/..%5Cadmin": true,
	"/sp/..%252fadmin": true, "/sp/..%25255cadmin": true, "/sp/..%3b/admin": true, "/sp/..%00/x": true, "/sp/..%3fx": true, "/sp/..%23": true,
	"/sp%2f../admin": true, "/sp%2f..": true, "/sp%5c..?x": true, "/sp%252f../x": true,
	"/sp/%252e%252e/admin": true, "/sp/.%252e/admin": true, "/sp/%25252e.": true, "/sp/%252E%252E%252Fadmin": true, "/sp/%252e%252e": true,
	"/sp/%252e%252e?x": true, "/sp/%252e%252e;x": true, "/sp%252e%252e/x": true,
	// These bytes are no valid UTF-8; a lax decoder reads them as dots and slashes.
	"/sp/%c0%ae%c0%ae/admin": true, "/sp/%C0%AE%C0%AE/admin": true, "/sp/.%c0%ae/admin": true, "/sp/%c0%ae.": true, "/sp/%c0%ae%c0%ae?x": true,
	"/sp/%e0%80%ae%e0%80%ae/admin": true, "/sp/%E0%80%AE./admin": true, "/sp/%f0%80%80%ae%f0%80%80%ae/x": true, "/sp/%f8%80%80%80%ae./x": true,
	"/sp/%fc%80%80%80%80%ae%c0%ae": true, "/sp/%25c0%25ae%25c0%25ae/x": true, "/sp/..%c0%af": true, "/sp/..%c1%9cx": true, "/sp/..%e0%80%afx": true,
	"/sp/..%e0%81%9cx": true, "/sp/%c0%ae%c0%ae%c0%afx": true, "/sp%c0%af../x": true, "/sp/..%c0%80": true, "/sp/..%c0%bb/x": true,
	"/sp/%u002e%u002e/admin": true, "/sp/.%U002E/admin": true, "/sp/..%u002fadmin": true,
	"/sp/%c0%ae": false, "/sp/a%c0%aeb": false, "/sp/%c0%af": false, "/sp/%c3%80%c2%ae": false, "/sp/%e2%80%ae": false, "/sp/x?%c0%ae%c0%ae/": false, "/sp/%u002e": false,
	"/": false, "/sp/a..b": false, "/sp/v1...v2": false, "/sp/a..": false, "/sp../x": false, "/sp/x?file=..%2fy": false, "/sp/x?..;": false,
	"/sp/%2f": false, "/sp/a%2fb": false, "/sp/a;b": false, "/sp/%25": false, "/sp/100%2525": false, "/sp/.%2fx": false, "/sp/a%252eb": false,
	"/sp/...%2fx": true, "/sp/a..%2fb": true, // dots at the end of a segment: a prefix may end before them
}

// TestDotSegments: the expression matches exactly the paths in which some server reads "..".
func TestDotSegments(t *testing.T) {
	expression := regexp.MustCompile("^(?:" + strings.ReplaceAll(dotSegment, `\C`, `(?s:.)`) + ")$")
	quick := func(path string) bool {
		return slices.ContainsFunc(dotMarks, func(mark string) bool { return strings.Contains(strings.ToLower(path), mark) })
	}
	for path, refused := range dotSegments {
		if got := expression.MatchString(path); got != refused {
			t.Errorf("%s: %t", path, got)
		}
		if refused && !quick(path) {
			t.Errorf("%s is never looked at", path)
		}
	}
}

// TestGuards: TRACE is always refused. Ambiguous paths are refused unless ForwardDotSegments
// is set.
func TestGuards(t *testing.T) {
	for forward, want := range map[bool]int{false: 2, true: 1} {
		got, err := guards(module{}, forward)
		if err != nil || len(got) != want {
			t.Errorf("with forwarding %t there are %d guards, want %d (%v)", forward, len(got), want, err)
		}
	}
	w := newWorld(t)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec("", "/a"))
	params := testParams
	params.ForwardDotSegments = true
	forwarding := NewPlanner(params).Plan(w.state()).Set
	if diff := changed(NewPlanner(testParams).Plan(w.state()).Set, forwarding); len(diff) != 1 {
		t.Errorf("the setting changes %v, want the table", diff)
	}
}

// TestEnvoyRefusesDotSegments asks a real Envoy. Envoy normalises the path first, which
// resolves a segment ".." with parameters.
func TestEnvoyRefusesDotSegments(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Routes, id(2, 0), 1, routeSpec("", "/"))
	address := serve(t, w)
	for path, refused := range dotSegments {
		resolved := strings.Contains(path, "/..;")
		if r, body := ask(t, address, "x.test", path); (r.StatusCode == 400) != (refused && !resolved) {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
}
