package gateway_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestCompare lists candidates in the order in which they must win, one list for each rule,
// and sorts them from the reverse order.
func TestCompare(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	h := func(hosts ...string) *gateway.Route { return &gateway.Route{Hosts: hosts} }
	for name, want := range map[string][]gateway.Candidate{
		"kinds of attributes": {
			{ID: "both", Route: &gateway.Route{Methods: []string{"GET"}, Paths: []string{"/"}}, Path: "/"},
			{ID: "one", Route: &gateway.Route{Paths: []string{"/longer"}}, Path: "/longer"},
		},
		"plain hosts":    {{ID: "plain", Route: h("a.test", "b.test")}, {ID: "mixed", Route: h("a.test", "*.test"), Created: at(-1)}},
		"hosts or none":  {{ID: "host", Route: h("a.test")}, {ID: "method", Route: &gateway.Route{Methods: []string{"GET"}}, Created: at(-1)}},
		"header names":   {{ID: "two", Route: &gateway.Route{Headers: map[string][]string{"a": nil, "b": nil}}}, {ID: "one", Route: &gateway.Route{Headers: map[string][]string{"a": nil}}}},
		"regex first":    {{ID: "regex", Route: &gateway.Route{Paths: []string{"~/a"}}, Path: "~/a"}, {ID: "prefix", Route: &gateway.Route{Paths: []string{"/abc"}}, Path: "/abc"}},
		"regex priority": {{ID: "high", Route: &gateway.Route{Paths: []string{"~/a"}, RegexPriority: 2}, Path: "~/a"}, {ID: "low", Route: &gateway.Route{Paths: []string{"~/abc"}, RegexPriority: 1}, Path: "~/abc", Created: at(-1)}},
		"longer prefix":  {{ID: "long", Route: &gateway.Route{Paths: []string{"/ab"}}, Path: "/ab", Created: at(5)}, {ID: "short", Route: &gateway.Route{Paths: []string{"/a"}}, Path: "/a"}},
		"older":          {{ID: "z", Route: h("a.test"), Created: at(1)}, {ID: "a", Route: h("a.test"), Created: at(2)}},
		"id":             {{ID: "a", Route: h("a.test")}, {ID: "b", Route: h("a.test")}},
	} {
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, gateway.Compare)
		for i := range want {
			if got[i].ID != want[i].ID {
				t.Errorf("%s: %s comes before %s", name, got[i].ID, want[i].ID)
			}
		}
	}
}

func TestCandidatesRankPathsIndividually(t *testing.T) {
	r := &gateway.Route{Paths: []string{"/a", "/abc", "/a"}}
	var paths []string
	for _, c := range gateway.Candidates("id", time.Time{}, r) {
		paths = append(paths, c.Path)
	}
	if diff := cmp.Diff([]string{"/a", "/abc"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if got := gateway.Candidates("id", time.Time{}, &gateway.Route{Methods: []string{"GET"}}); len(got) != 1 || got[0].Path != "" {
		t.Errorf("a route without paths has candidates %v", got)
	}
}

func TestMatchable(t *testing.T) {
	for name, c := range map[string]struct {
		route gateway.Route
		ok    bool
	}{
		"exact":           {gateway.Route{Hosts: []string{"a.test", "[::1]", "::1"}, Paths: []string{"/a"}, Methods: []string{"GET"}, Protocols: []string{"http", "https"}}, true},
		"nothing":         {gateway.Route{}, false},
		"wildcards":       {gateway.Route{Hosts: []string{"a.test", "*.test", "a.*", "*.test:80"}}, true},
		"two wildcards":   {gateway.Route{Hosts: []string{"*.a.*"}}, false},
		"wildcard inside": {gateway.Route{Hosts: []string{"a.*.test"}}, false},
		"any":             {gateway.Route{Hosts: []string{"*"}}, false},
		"ports":           {gateway.Route{Hosts: []string{"a.test:80", "[::1]:80"}}, true},
		"bad port":        {gateway.Route{Hosts: []string{"a.test:0"}}, false},
		"regex":           {gateway.Route{Paths: []string{"~/a(b"}}, false},
		"good regex":      {gateway.Route{Paths: []string{"~/a(b)"}}, true},
		"relative":        {gateway.Route{Paths: []string{"a"}}, false},
		"query":           {gateway.Route{Paths: []string{"/a?b"}}, false},
		"headers":         {gateway.Route{Headers: map[string][]string{"a": {"b", "~*c"}}}, true},
		"header regex":    {gateway.Route{Headers: map[string][]string{"a": {"~*("}}}, false},
		"header alone":    {gateway.Route{Headers: map[string][]string{"a": nil}}, false},
		"snis":            {gateway.Route{SNIs: []string{"a.test"}}, true},
		"grpc":            {gateway.Route{Paths: []string{"/a"}, Protocols: []string{"grpc", "grpcs"}}, true},
		"tcp":             {gateway.Route{Paths: []string{"/a"}, Protocols: []string{"tcp"}}, false},
	} {
		if err := gateway.Matchable(&c.route); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMetadataCandidates(t *testing.T) {
	paths := func(r *gateway.Route) (out []string) {
		for _, c := range gateway.MetadataCandidates("id", time.Time{}, r) {
			if !c.Metadata || c.Tier().Regex {
				t.Errorf("%+v", c)
			}
			out = append(out, c.Path)
		}
		return out
	}
	const at = "/.well-known/oauth-authorization-server"
	for _, c := range []struct{ given, want []string }{
		{nil, []string{at}}, {[]string{"/"}, []string{at}}, {[]string{"/a", "/b/", "~/c"}, []string{at + "/a", at + "/b"}}, {[]string{"~/c"}, nil},
	} {
		if diff := cmp.Diff(c.want, paths(&gateway.Route{Paths: c.given})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.given, diff)
		}
	}
}

func TestEffective(t *testing.T) {
	all := map[gateway.Attachment]string{
		{Name: "oauth2", Route: "r", Service: "s"}: "both", {Name: "oauth2", Route: "r"}: "route",
		{Name: "oauth2", Service: "s"}: "service", {Name: "oauth2"}: "global", {Name: "other", Route: "r", Service: "s"}: "other",
	}
	find := func(t gateway.Attachment) (string, bool) { v, ok := all[t]; return v, ok }
	for _, want := range []string{"both", "route", "service", "global"} {
		got, ok := gateway.Effective("oauth2", "r", "s", find)
		if got != want || !ok {
			t.Errorf("effective is %q, want %q", got, want)
		}
		for target, v := range all {
			if v == want {
				delete(all, target)
			}
		}
	}
	if got, ok := gateway.Effective("oauth2", "r", "s", find); ok {
		t.Errorf("%q is effective", got)
	}
}

func TestHTTPSOnly(t *testing.T) {
	for want, sets := range map[bool][][]string{
		true:  {{"https"}, {"grpcs"}, {"wss"}},
		false: {{"http"}, {"http", "https"}, {"grpc", "grpcs"}, {"ws"}, {"wss", "ws"}, nil},
	} {
		for _, s := range sets {
			if got := gateway.HTTPSOnly(&gateway.Route{Protocols: s}); got != want {
				t.Errorf("%v: %t", s, got)
			}
		}
	}
}
