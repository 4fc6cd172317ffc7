package cloudapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestRepeatedFilters: all values of a filter count, on every page of a list.
func TestRepeatedFilters(t *testing.T) {
	f := setupPlanes(t)
	for _, name := range []string{"ab", "bc", "abc", "cab"} {
		f.created(201, portalsPath, `{"name":"`+name+`"}`)
		f.plane(name, cloud.TypeHybrid)
		f.created(200, destinations, destination(name))
	}
	const contains = "filter[name][contains]="
	for _, path := range []string{portalsPath, controlPlanes, destinations} {
		for query, want := range map[string]string{
			contains + "a&" + contains + "c": "abc cab", contains + "c&" + contains + "a": "abc cab",
			contains + "a&" + contains + "c&" + contains + "cab": "cab", "filter[name]=ab&filter[name]=bc": "", "filter[name]=ab&filter[name]=ab": "ab",
			"filter[name][neq]=ab&filter[name][neq]=abc&" + contains + "a&" + contains + "b": "cab",
		} {
			var names []string
			for _, row := range f.expects(200, "GET", path+"?"+query, "")["data"].([]any) {
				names = append(names, row.(map[string]any)["name"].(string))
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s?%s: %q, want %q", path, query, got, want)
			}
		}
	}
	n := 0
	for next := destinations + "?page[size]=1&" + contains + "a&" + contains + "c"; next != ""; n++ {
		doc := f.expects(200, "GET", next, "")
		next, _ = doc["meta"].(map[string]any)["next"].(string)
	}
	if n != 2 {
		t.Errorf("the filtered list has %d pages, want 2", n)
	}
}

// TestRepeatedParameters: a parameter of a list that is no filter is given once, and a page is after or before a
// cursor. One of two would be obeyed, and nobody could know which.
func TestRepeatedParameters(t *testing.T) {
	f := setupPlanes(t)
	group, portal := f.plane("group", cloud.TypeGroup), f.created(http.StatusCreated, portalsPath, `{"name":"docs"}`)
	cursor := base64.RawURLEncoding.EncodeToString([]byte(group))
	values := map[string]string{argSize: "1", argNumber: "1", argSort: "created_at", argLabels: "a", argForce: "false", argAfter: cursor, argBefore: cursor}
	seen := map[string]bool{}
	for _, e := range f.api.everyEndpoint() {
		if f.api.isEntity(e.Pattern) || e.Pattern == olderPath || e.Auth == access.Open {
			continue
		}
		path := strings.NewReplacer("{id}", group, "{portalId}", portal).Replace(e.Pattern)
		for _, p := range e.Contract.Query {
			if value, ok := values[p.Name]; ok {
				seen[p.Name] = true
				if got, want := f.complains(e, path, url.Values{p.Name: {value, value}}), p.Name+" "+httpkit.TextTwice; got != want {
					t.Errorf("%s %s: %s twice is answered %s, want %s", e.Method, path, p.Name, got, want)
				}
			}
		}
	}
	for name := range values {
		if !seen[name] {
			t.Errorf("nothing has %s", name)
		}
	}
	list := httpkit.Endpoint{Method: http.MethodGet}
	if got := f.complains(list, destinations, url.Values{argAfter: {cursor}, argBefore: {cursor}}); got != "page[before] cannot be given beside page[after]" {
		t.Errorf("both cursors are answered %s", got)
	}
}

// complains returns what is said of the first invalid parameter of a request.
func (f *planeFixture) complains(e httpkit.Endpoint, path string, query url.Values) string {
	f.t.Helper()
	status, doc := f.do(e.Method, path+"?"+query.Encode(), "")
	list, _ := doc["invalid_parameters"].([]any)
	if status != http.StatusBadRequest || len(list) != 1 {
		return fmt.Sprint(status, list)
	}
	first := list[0].(map[string]any)
	return fmt.Sprint(first["field"], " ", first["reason"])
}
