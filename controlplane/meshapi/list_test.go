package meshapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// shownPage is a page in the form in which a client reads it.
type shownPage struct {
	Total int
	Items []struct{ Mesh, Name string }
	Next  *string
}

func readPage(t interface{ Fatalf(string, ...any) }, rec *httptest.ResponseRecorder) (p shownPage) {
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || rec.Code != 200 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return p
}

// TestPaging follows next through lists. Every match occurs exactly once and in order, all
// pages except the last are full, and the total is constant.
func TestPaging(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAPI(t)
		var all [][2]string
		for _, m := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}`), 0, 4, rapid.ID).Draw(rt, "meshes") {
			a.put(t, "/meshes/"+m, `{"type":"Mesh","name":"`+m+`"}`)
			for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c](-?[a-c]){0,2}`), 0, 8, rapid.ID).Draw(rt, "names") {
				a.put(t, "/meshes/"+m+"/dataplanes/"+name, dataplane(m, name, "s"))
				all = append(all, [2]string{m, name})
			}
		}
		scope, part := "", ""
		if len(all) > 0 && rapid.Bool().Draw(rt, "one mesh") {
			scope = rapid.SampledFrom(all).Draw(rt, "mesh")[0]
		}
		if rapid.Bool().Draw(rt, "filtered") {
			part = rapid.SampledFrom([]string{"a", "b", "ab", "-"}).Draw(rt, "part")
		}
		want := slices.DeleteFunc(all, func(r [2]string) bool {
			return scope != "" && r[0] != scope || !strings.Contains(r[1], part)
		})
		slices.SortFunc(want, func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
		size := rapid.IntRange(1, 6).Draw(rt, "size")
		path := "/dataplanes"
		if scope != "" {
			path = "/meshes/" + scope + path
		}
		var got [][2]string
		query := "?size=" + strconv.Itoa(size) + "&name=" + part
		for pages := 0; ; pages++ {
			p := readPage(rt, request(a.handler, "GET", path+query, ""))
			if p.Total != len(want) || pages > len(want) {
				rt.Fatalf("total %d on page %d, want %d", p.Total, pages, len(want))
			}
			for _, item := range p.Items {
				got = append(got, [2]string{item.Mesh, item.Name})
			}
			if p.Next == nil {
				break
			}
			if len(p.Items) != size {
				rt.Fatalf("page %d has %d of %d and is not the last", pages, len(p.Items), size)
			}
			next, err := url.Parse(*p.Next)
			if err != nil || next.Host != "127.0.0.1:5681" || next.Scheme != "http" || next.Path != path || next.Query().Get("name") != part {
				rt.Fatalf("next is %s", *p.Next)
			}
			query = "?" + next.RawQuery
		}
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			rt.Fatalf("%s", diff)
		}
	})
}

// TestLongLists reads more than one batch.
func TestLongLists(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	const n = 2*batch + 7
	for i := range n {
		if _, _, err := a.writer.PutDocumentIf(t.Context(), tickets, "m", fmt.Sprintf("t-%04d", i), validTicket(""), always); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		query string
		total int
		items int
		first string
	}{
		{"", n, 100, "t-0000"},
		{"?size=1000", n, 1000, "t-0000"},
		{"?size=1000&offset=900", n, n - 900, "t-0900"},
		{"?name=t-1&size=3&offset=2", n - 1000, 3, "t-1002"},
		{"?name=9&size=1000&offset=1", 272 - 1, 270, "t-0019"},
	} {
		p := readPage(t, request(a.handler, "GET", "/tickets"+test.query, ""))
		if len(p.Items) != test.items || p.Total != test.total || p.Items[0].Name != test.first {
			t.Errorf("%s: %d of %d from %s", test.query, len(p.Items), p.Total, p.Items[0].Name)
		}
	}
}

// TestNextOverTLS: next has the scheme and host that the client used.
func TestNextOverTLS(t *testing.T) {
	a := seeded(t)
	r := httptest.NewRequest("GET", "https://[::1]:5682//meshes/m/dataplanes/?size=1", nil)
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, r)
	if p := readPage(t, rec); p.Next == nil || *p.Next != "https://[::1]:5682//meshes/m/dataplanes/?offset=1&size=1" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func validTicket(note string) *ticket {
	return &ticket{Connection: mesh.Connection{Sources: []mesh.Selector{{}}}, Conf: &ticketConf{Note: note}}
}

// TestLargePagesEndEarly: a page that becomes too large ends early, and the next one goes on
// from there.
func TestLargePagesEndEarly(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	note := strings.Repeat("x", MaxBody)
	const n = 12
	for i := range n {
		if _, _, err := a.writer.PutDocumentIf(t.Context(), tickets, "m", fmt.Sprintf("t-%02d", i), validTicket(note), always); err != nil {
			t.Fatal(err)
		}
	}
	p := readPage(t, request(a.handler, "GET", "/tickets", ""))
	if len(p.Items) >= n || p.Total != n || p.Next == nil {
		t.Fatalf("%d of %d items in one page", len(p.Items), p.Total)
	}
	next, err := url.Parse(*p.Next)
	if err != nil {
		t.Fatal(err)
	}
	rest := readPage(t, request(a.handler, "GET", next.RequestURI(), ""))
	if len(p.Items)+len(rest.Items) != n || rest.Next != nil {
		t.Errorf("%d and %d items", len(p.Items), len(rest.Items))
	}
}

// TestFilters filters by tags, gateways and names.
func TestFilters(t *testing.T) {
	a := newAPI(t)
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	for name, networking := range map[string]string{
		"backend":   `"inbound":[{"port":1,"tags":{"mesh.io/service":"backend","version":"v1"}},{"port":2,"tags":{"mesh.io/service":"admin","team":"a:b"}}]`,
		"web":       `"inbound":[{"port":1,"tags":{"mesh.io/service":"web"}}]`,
		"delegated": `"gateway":{"tags":{"mesh.io/service":"edge"}}`,
		"builtin":   `"gateway":{"type":"BUILTIN","tags":{"mesh.io/service":"edge","version":"v2"}}`,
	} {
		a.put(t, "/meshes/m/dataplanes/"+name, `{"type":"Dataplane","mesh":"m","name":"`+name+`","networking":{"address":"10.0.0.1",`+networking+`}}`)
	}
	const all = "backend builtin delegated web"
	for query, want := range map[string]string{
		"":                         all,
		"name=e":                   "backend delegated web",
		"tag=mesh.io/service:back": "backend",
		"tag=mesh.io/service:edge": "builtin delegated",
		"tag=version:*":            "backend builtin",
		"tag=version:":             "backend builtin",
		"tag=version:v1":           "backend",
		"tag=mesh.io/service:admin&tag=version:v1": "", // tags of two inbounds
		"tag=mesh.io/service:edge&tag=version:2":   "builtin",
		"tag=version:v&tag=version:1":              "backend",
		"tag=team:a:b":                             "backend",
		"tag=nonsense":                             all,
		"tag=nonsense&tag=mesh.io/service:we":      "web",
		"gateway=true":                             "builtin delegated",
		"gateway=FALSE":                            "backend web",
		"gateway=builtin":                          "builtin",
		"gateway=Delegated":                        "delegated",
		"gateway=":                                 all,
		"gateway=true&name=b&tag=version:*":        "builtin",
	} {
		for _, path := range []string{"/dataplanes", "/meshes/m/dataplanes", "/dataplanes/_overview", "/meshes/m/dataplanes+insights"} {
			var names []string
			p := readPage(t, request(a.handler, "GET", path+"?"+query, ""))
			for _, item := range p.Items {
				names = append(names, item.Name)
			}
			if got := strings.Join(names, " "); got != want || p.Total != len(names) {
				t.Errorf("%s?%s: %d: %s, want %s", path, query, p.Total, got, want)
			}
		}
	}
	for name, service := range map[string]string{"mail": "mail", "maps": "maps"} {
		a.put(t, "/meshes/m/external-services/"+name, `{"type":"ExternalService","mesh":"m","name":"`+name+`","networking":{"address":"`+name+`.example:443"},"tags":{"mesh.io/service":"`+service+`"}}`)
	}
	for _, path := range []string{"/external-services", "/meshes/m/external-services"} {
		if p := readPage(t, request(a.handler, "GET", path+"?tag=mesh.io/service:map", "")); p.Total != 1 || p.Items[0].Name != "maps" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	// Other kinds have neither tags nor gateways.
	if p := readPage(t, request(a.handler, "GET", "/meshes?tag=a:b&gateway=foo", "")); p.Total != 1 {
		t.Errorf("%d meshes", p.Total)
	}
}

// FuzzQuery: no query breaks a list, and the answer is what was requested.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "size=1&offset=1", "offset=-1", "size=-1", "offset=9223372036854775807&size=1000", "size=1e3", "offset=0x1", "offset=+1", "tag=:&tag=a:*&gateway=true", "name=%00", "&&;=%zz"} {
		f.Add(q)
	}
	a := seeded(f)
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/dataplanes", "/meshes/m/tickets", "/meshes"} {
			r := httptest.NewRequest("GET", "http://localhost"+path, nil)
			r.URL.RawQuery = query
			rec := httptest.NewRecorder()
			a.handler.ServeHTTP(rec, r)
			if rec.Code == 400 {
				continue
			}
			p := readPage(t, rec)
			values, err := url.ParseQuery(strings.ReplaceAll(query, ";", "%3B")) // ";" is not a separator
			if err != nil {
				t.Fatalf("a malformed query was accepted: %v", err)
			}
			if n, err := strconv.Atoi(values.Get("offset")); err == nil && n < 0 {
				t.Fatalf("offset %d was accepted", n)
			}
			if n, err := strconv.Atoi(values.Get("size")); err == nil && (n < 0 || n > maxSize || n > 0 && len(p.Items) > n) {
				t.Fatalf("size %d gave %d items", n, len(p.Items))
			}
			if p.Total < len(p.Items) {
				t.Fatalf("%d of %d items", len(p.Items), p.Total)
			}
		}
	})
}

// FuzzBody: no body breaks the API, and every accepted body is shown again.
func FuzzBody(f *testing.F) {
	f.Add("/meshes/f", `{"type":"Mesh","name":"f"}`)
	f.Add("/meshes/m/dataplanes/f", dataplane("m", "f", "web"))
	f.Add("/meshes/m/tickets/f", goodTicket("f"))
	f.Add("/meshes/m/secrets/f", `{"type":"Secret","mesh":"m","name":"f","data":"aGk=","labels":{"a":"b"}}`)
	f.Add("/global-secrets/f", strings.Repeat(`{"a":[`, 1000))
	f.Add("/tokens/dataplane", `{"tags":{"a":[null]}}`)
	a := seeded(f)
	f.Fuzz(func(t *testing.T, path, body string) {
		r := httptest.NewRequest("PUT", "http://localhost/", strings.NewReader(body))
		r.URL.Path = path
		r.Header.Set("Content-Type", mediaJSON)
		rec := httptest.NewRecorder()
		a.handler.ServeHTTP(rec, r)
		switch rec.Code {
		case 400, 404, 405, 413:
		case 200, 201:
			if strings.Contains(path, "tokens") {
				return
			}
			get := httptest.NewRequest("GET", "http://localhost/", nil)
			get.URL.Path = path
			shown := httptest.NewRecorder()
			if a.handler.ServeHTTP(shown, get); shown.Code != 200 || !json.Valid(shown.Body.Bytes()) {
				t.Fatalf("%s was stored and is answered with %d %s", path, shown.Code, shown.Body)
			}
		default:
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	})
}
