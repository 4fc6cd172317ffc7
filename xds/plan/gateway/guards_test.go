package gateway

import (
	"regexp"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestDotSegments: what some server reads as "..", and what none does.
func TestDotSegments(t *testing.T) {
	expression := regexp.MustCompile("^(?:" + strings.ReplaceAll(dotSegment, `\C`, `(?s:.)`) + ")$")
	quick := func(path string) bool { return strings.Contains(path, "..") || strings.Contains(path, "%25") }
	for path, refused := range map[string]bool{
		"/sp..;a/admin": true, "/sp..;/admin": true, "/sp/..;x": true, "/sp/..;": true,
		"/sp/..%2fadmin": true, "/sp/..%2Fadmin": true, "/sp..%2fadmin": true, "/sp/..%5cadmin": true, "/sp/..%5Cadmin": true,
		"/sp/..%252fadmin": true, "/sp/..%25255cadmin": true, "/sp/..%3b/admin": true, "/sp/..%00/x": true, "/sp/..%3fx": true, "/sp/..%23": true,
		"/sp%2f../admin": true, "/sp%2f..": true, "/sp%5c..?x": true, "/sp%252f../x": true,
		"/sp/%252e%252e/admin": true, "/sp/.%252e/admin": true, "/sp/%25252e.": true, "/sp/%252E%252E%252Fadmin": true, "/sp/%252e%252e": true,
		"/sp/%252e%252e?x": true, "/sp/%252e%252e;x": true, "/sp%252e%252e/x": true,
		"/": false, "/sp/a..b": false, "/sp/v1...v2": false, "/sp/a..": false, "/sp../x": false, "/sp/x?file=..%2fy": false, "/sp/x?..;": false,
		"/sp/%2f": false, "/sp/a%2fb": false, "/sp/a;b": false, "/sp/%25": false, "/sp/100%2525": false, "/sp/.%2fx": false, "/sp/a%252eb": false,
		"/sp/...%2fx": true, "/sp/a..%2fb": true, // dots at the end of a segment: a prefix may end before them
	} {
		if got := expression.MatchString(path); got != refused {
			t.Errorf("%s: %t", path, got)
		}
		if refused && !quick(path) {
			t.Errorf("%s is never looked at", path)
		}
	}
}

// TestGuards: TRACE is refused in any case, ambiguous paths unless somebody wants
// them.
func TestGuards(t *testing.T) {
	for forward, want := range map[bool]int{false: 2, true: 1} {
		got, err := guards(forward)
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
