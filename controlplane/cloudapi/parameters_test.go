package cloudapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestParametersAreDescribed: a list takes the parameters that the contract describes, and refuses all
// others that any list has.
func TestParametersAreDescribed(t *testing.T) {
	f := setupPlanes(t)
	group := f.plane("group", "CLUSTER_TYPE_CONTROL_PLANE_GROUP")
	portal := f.created(http.StatusCreated, "/v2/portals", `{"name":"docs"}`)
	values := map[string]string{
		argSize: "1", argNumber: "1", argSort: "created_at", argLabels: "a", argForce: "true",
		argAfter: base64.RawURLEncoding.EncodeToString([]byte(group)), argBefore: base64.RawURLEncoding.EncodeToString([]byte(group)),
	}
	var lists []httpkit.Endpoint
	for _, e := range f.api.everyEndpoint() {
		if f.api.isEntity(e.Pattern) || e.Method != http.MethodGet {
			continue
		}
		for _, p := range e.Contract.Query {
			if _, known := values[p.Name]; !known && e.Pattern != olderPath {
				values[p.Name] = "x"
			}
			if member, ok := strings.CutPrefix(p.Name, "filter["); ok {
				for _, operator := range []string{"", "[eq]", "[neq]", "[contains]", "[oeq]", "[other]"} {
					values[filterOf(strings.SplitN(member, "]", 2)[0])+operator] = "x"
				}
			}
		}
		if len(e.Contract.Query) > 0 && e.Pattern != olderPath {
			lists = append(lists, e)
		}
	}
	if len(lists) < 7 {
		t.Fatalf("there are %d lists", len(lists))
	}
	for _, e := range lists {
		path := strings.NewReplacer("{id}", group, "{controlPlaneId}", group, "{portalId}", portal).Replace(e.Pattern)
		for name, value := range values {
			described := slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == name })
			status, body := f.raw("admin", e.Method, path+"?"+url.Values{name: {value}}.Encode(), "")
			if unknown := strings.Contains(body, "should not exist"); unknown == described || unknown != (status == http.StatusBadRequest) && name != argSort {
				t.Errorf("%s: %s is described: %t, and answered %d %s", path, name, described, status, body)
			}
		}
	}
}

// TestFiltersOfEntitiesAreDescribed: lists of entities below a control plane describe the filters by name
// that they have, and the next page has them, too.
func TestFiltersOfEntitiesAreDescribed(t *testing.T) {
	f := setupPlanes(t)
	lists := 0
	for _, e := range f.api.everyEndpoint() {
		if !f.api.isEntity(e.Pattern) || e.Method != http.MethodGet || e.Auth == access.Open ||
			!slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == "offset" }) || strings.HasSuffix(e.Pattern, "/tags") || strings.Contains(e.Pattern, "/tags/") {
			continue
		}
		lists++
		for _, name := range []string{"filter[name]", "filter[name][eq]", "filter[name][contains]"} {
			if !slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == name }) {
				t.Errorf("GET %s does not describe %s", e.Pattern, name)
			}
		}
	}
	if lists < 20 {
		t.Fatalf("there are %d lists", lists)
	}
	a := f.plane("aa", "CLUSTER_TYPE_HYBRID")
	for _, name := range []string{"one", "two", "one-more", "three", "one-again", "four"} {
		f.expects(http.StatusCreated, http.MethodPost, entities(a)+"/services", `{"name":"`+name+`","host":"h.test"}`)
	}
	n := 0
	for next := entities(a) + "/services?size=1&filter[name][contains]=one"; next != ""; {
		doc := f.expects(http.StatusOK, http.MethodGet, next, "")
		n += len(doc["data"].([]any))
		next, _ = doc["next"].(string)
	}
	if n != 3 {
		t.Errorf("the pages of a filtered list have %d services, want 3", n)
	}
}

// TestUnknownFiltersOfEntities: lists of entities below a control plane refuse filters that they do not have, as the
// other lists of this API do. Who deletes what such a list shows would delete everything.
func TestUnknownFiltersOfEntities(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("aa", "CLUSTER_TYPE_HYBRID")
	f.created(201, entities(a)+"/services", `{"name":"own","host":"h.test"}`)
	f.created(201, entities(a)+"/upstreams", `{"name":"own"}`)
	f.created(201, entities(a)+"/consumers", `{"username":"own","custom_id":"1","tags":["t"]}`)
	refused := map[string]bool{}
	for _, e := range f.api.everyEndpoint() {
		listed := slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == "offset" })
		if !f.api.isEntity(e.Pattern) || e.Method != http.MethodGet || !listed {
			continue
		}
		path := strings.NewReplacer("{id}", a, "{owner}", "own", "{key}", "own", "{tag}", "t").Replace(e.Pattern)
		unknown := []string{"filter[name][neq]", "filter[name][oeq]", "filter[tags]", "filter[name", "filter[]", "filter"}
		if strings.Contains(e.Pattern, "/tags") {
			unknown = append(unknown, "filter[name]")
		}
		for _, name := range unknown {
			status, body := f.raw("admin", e.Method, path+"?"+url.Values{name: {"x"}}.Encode(), "")
			switch {
			case status == http.StatusBadRequest && strings.Contains(body, name):
				refused[path] = true
			case status != http.StatusNotFound: // of an owner that there is not
				t.Errorf("%s?%s=x: %d %s", path, name, status, body)
			}
		}
	}
	for _, path := range []string{"/services", "/services/own/routes", "/upstreams/own/health", "/consumers/own/oauth2", "/oauth2_tokens", "/tags", "/tags/t"} {
		if !refused[entities(a)+path] {
			t.Errorf("%s refuses no filter", path)
		}
	}
	const contains = "filter[name][contains]="
	for path, want := range map[string]int{
		"/services?" + contains + "o&" + contains + "x": 0, "/services?" + contains + "o&" + contains + "n": 1, "/services?filter[name]=own&filter[name]=other": 0,
		"/consumers?custom_id=1": 1, "/consumers?custom_id=1&filter[name]=other": 0,
	} {
		if got := f.has(a, path); got != want {
			t.Errorf("%s lists %d, want %d", path, got, want)
		}
	}
	for _, name := range []string{"own-2", "own-x-2"} {
		f.created(201, entities(a)+"/services", `{"name":"`+name+`","host":"h.test"}`)
	}
	n := 0
	for next := entities(a) + "/services?size=1&" + contains + "2&" + contains + "x"; next != ""; n++ {
		next, _ = f.expects(200, "GET", next, "")["next"].(string)
	}
	if n != 1 {
		t.Errorf("a list with two filters has %d pages", n)
	}
}
