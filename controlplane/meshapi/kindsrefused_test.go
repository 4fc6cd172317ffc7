package meshapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestEveryKindIsWrittenAndDeleted: the life of one resource of each kind.
func TestEveryKindIsWrittenAndDeleted(t *testing.T) {
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, all := newWorld(t), samplesOf(t, k)
			item := collectionOf(k) + "/x"
			named := func(d document, more map[string]any) string {
				return d.with(map[string]any{"name": "x"}).with(more).text(t)
			}
			w.expect(404, "GET", item, "")
			w.expect(404, "DELETE", item, "")
			w.expect(201, "PUT", item, named(all[0], map[string]any{"creationTime": "0001-01-01T00:00:00Z", "modificationTime": nil}))
			stale := w.read(item)
			// Another writer comes between: times that were read earlier keep nobody from writing.
			w.expect(200, "PUT", item, named(all[len(all)-1], map[string]any{"labels": map[string]any{"between": "yes"}}))
			between := w.read(item)
			if labels, _ := between["labels"].(map[string]any); labels["between"] != "yes" || between["creationTime"] != stale["creationTime"] {
				t.Errorf("the update is shown as %v", between)
			}
			w.expect(200, "PUT", item+"/", stale.text(t))
			if diff := cmp.Diff(timeless(stale), timeless(w.read("/"+item+"/"))); diff != "" {
				t.Errorf("the earlier document (-written +read):\n%s", diff)
			}
			w.asObject(k, item)
			deleted := w.expect(200, "DELETE", item, "")
			if deleted.Body.Len() > 0 || deleted.Header().Get(HeaderRevision) == "" {
				t.Errorf("the deletion is answered with %v %s", deleted.Header(), deleted.Body)
			}
			w.expect(404, "GET", item, "")
			w.expect(404, "DELETE", item, "")
		})
	}
}

// asObject checks a resource in the form of custom resources.
func (w *world) asObject(k *model.Kind, item string) {
	w.Helper()
	want := object{Kind: k.Document.Type, APIVersion: "mesh.io/v1alpha1", Metadata: objectMeta{Name: "x", Namespace: "apps"}}
	if k.Scoping == model.Mesh {
		want.Mesh = "m"
	}
	if k.Document.AdminOnly {
		want.Kind, want.APIVersion = "Secret", "v1"
	}
	for _, format := range []string{"k8s", "kubernetes"} {
		var got object
		if err := json.Unmarshal(w.expect(200, "GET", item+"?format="+format+"&namespace=apps", "").Body.Bytes(), &got); err != nil {
			w.Fatal(err)
		}
		if got.Metadata.CreationTimestamp == "" || k.Document.AdminOnly != strings.HasPrefix(got.Type, "system.mesh.io/") || k.Document.AdminOnly == (got.Spec != nil) {
			w.Errorf("%+v", got)
		}
		got.Metadata.CreationTimestamp, got.Metadata.Labels, got.Type, got.Data, got.Spec = "", nil, "", nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("as %s (-want +got):\n%s", format, diff)
		}
	}
	w.expect(400, "GET", item+"?format=xml", "")
	if w.expect(200, "GET", item+"?format=universal", "").Body.String() != w.expect(200, "GET", item, "").Body.String() {
		w.Error("universal is not the usual form")
	}
}

// TestEveryKindRefuses: what no kind accepts, and what the answer says of it. Nothing of it is
// stored.
func TestEveryKindRefuses(t *testing.T) {
	const process, invalid, decode = "Could not process a resource", "Resource is not valid", "Bad Request"
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, item := newWorld(t), collectionOf(k)+"/x"
			good := samplesOf(t, k)[0].with(map[string]any{"name": "x"})
			before := w.store.Revision()
			refused := func(body string, want map[string]any, header ...string) {
				t.Helper()
				check(t, w.do("PUT", item, body, false, header...), want)
			}
			differs := func(member string) []string {
				return []string{member, member + " from the URL has to be the same as in body"}
			}
			refused(good.with(map[string]any{"name": "y"}).text(t), expected(400, process, invalid, differs("name")...))
			refused(good.with(map[string]any{"type": "Nothing"}).text(t), expected(400, process, invalid, differs("type")...))
			refused(good.with(map[string]any{"type": nil}).text(t), expected(400, process, invalid, differs("type")...))
			if k.Scoping == model.Mesh {
				refused(good.with(map[string]any{"mesh": "n"}).text(t), expected(400, process, invalid, differs("mesh")...))
				refused(good.with(map[string]any{"mesh": "n", "name": "y"}).text(t), expected(400, process, invalid, append(differs("name"), differs("mesh")...)...))
				there := strings.Replace(item, "/m/", "/none/", 1)
				for _, method := range []string{"GET", "PUT", "DELETE"} {
					check(t, w.do(method, there, "{", false), expected(404, "Failed to retrieve Mesh", "Not found"))
				}
				check(t, w.do("GET", strings.TrimSuffix(there, "/x"), "", false), expected(404, "Failed to retrieve Mesh", "Not found"))
			}
			refused(good.with(map[string]any{"creationTime": "bad"}).text(t), expected(400, decode, `invalid `+k.Document.Type+` object: "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \"2006\""`))
			refused(good.with(map[string]any{"labels": map[string]any{"a": "é"}}).text(t), expected(400, process, invalid, `labels["a"]`,
				"a label value is up to 63 alphanumeric characters, '-', '_' or '.', the first and last of them alphanumeric"))
			object := func(message string) map[string]any {
				return expected(400, decode, "invalid "+k.Document.Type+" object: "+message)
			}
			refused("", object(`"unexpected end of JSON input"`))
			refused("{", object(`"unexpected end of JSON input"`))
			refused(`{"name":"`+"\xff"+`"}`, object(`"a document is valid UTF-8"`))
			refused(strings.Repeat(" ", MaxBody)+"{}", expected(413, decode, "the body is larger than 1048576 bytes"))
			for _, body := range []string{"null", "[]", "1", `"x"`, "true", strings.Repeat("[", 100_000), good.text(t) + "{}"} {
				if rec := w.do("PUT", item, body, false); rec.Code != 400 || !strings.Contains(rec.Body.String(), "invalid "+k.Document.Type+" object") {
					t.Errorf("%.20s: %d %s", body, rec.Code, rec.Body)
				}
			}
			unknown := good.with(map[string]any{"nobodyKnowsThis": 1}).text(t)
			if rec := w.do("PUT", item, unknown, false); rec.Code != 400 || !strings.Contains(rec.Body.String(), `"field": "nobodyKnowsThis"`) {
				t.Errorf("an unknown member: %d %s", rec.Code, rec.Body)
			}
			for name, reason := range map[string]string{"-x": "invalid characters", "X": "invalid characters", strings.Repeat("x", 254): "less or equal 253"} {
				path := collectionOf(k) + "/" + name
				if rec := w.do("PUT", path, good.with(map[string]any{"name": name}).text(t), false); rec.Code != 400 || !strings.Contains(rec.Body.String(), reason) {
					t.Errorf("%.20s: %d %s", name, rec.Code, rec.Body)
				}
			}
			if w.store.Revision() != before {
				t.Error("something of it was stored")
			}
			if rec := w.do("PUT", item+"?fieldValidation=ignore", unknown, true); rec.Code != 201 {
				t.Errorf("an unknown member that is ignored: %d %s", rec.Code, rec.Body)
			}
			if w.read(item)["nobodyKnowsThis"] != nil {
				t.Error("it is stored")
			}
		})
	}
}

// TestEveryKindTakesNullForAbsence: a member that is null is one that is not there, whether that is
// accepted or not.
func TestEveryKindTakesNullForAbsence(t *testing.T) {
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, item := newWorld(t), collectionOf(k)+"/x"
			for i, sample := range samplesOf(t, k) {
				whole := sample.with(map[string]any{"name": "x"})
				vary := func(at string, change func(null bool) document) {
					answer := func(null bool) (status int, shown any) {
						rec := w.do("PUT", item, change(null).text(t), false)
						if status = rec.Code; status >= 300 {
							_ = json.Unmarshal(rec.Body.Bytes(), &shown)
							return status, shown
						}
						shown = timeless(w.read(item))
						delete(shown.(document), "creationTime")
						w.expect(200, "DELETE", item, "")
						return status, shown
					}
					status, shown := answer(false)
					nullStatus, nullShown := answer(true)
					if diff := cmp.Diff(shown, nullShown); status != nullStatus || diff != "" || status >= 500 {
						t.Errorf("sample %d without %s: %d, and with null: %d (-without +null)\n%s", i, at, status, nullStatus, diff)
					}
				}
				eachMember(map[string]any(whole), "", func(at string, holder map[string]any, name string) {
					was := holder[name]
					vary(at, func(null bool) document {
						if delete(holder, name); null {
							holder[name] = nil
						}
						return whole
					})
					holder[name] = was
				})
			}
		})
	}
}

// free are the members of documents whose content is kept as it is given.
var free = []string{"labels", "match", "tags", "destination", "conf", "body", "config", "listenerTags", "headers"}

// eachMember visits the members of a document at every depth, but for maps with free names.
func eachMember(node any, at string, visit func(at string, holder map[string]any, name string)) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			eachMember(item, at+"[]", visit)
		}
	case map[string]any:
		names := []string{}
		for name := range n {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if n[name] == nil {
				continue
			}
			visit(at+"."+name, n, name)
			if at == "" && name == "conf" || !slices.Contains(free, name) {
				eachMember(n[name], at+"."+name, visit)
			}
		}
	}
}

// TestEveryKindNegotiates: wrong paths, methods and media types have pages that clients know.
func TestEveryKindNegotiates(t *testing.T) {
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, list := newWorld(t), collectionOf(k)
			item, good := list+"/x", samplesOf(t, k)[0].with(map[string]any{"name": "x"}).text(t)
			page := func(status int, text, method, path string, header ...string) *httptest.ResponseRecorder {
				t.Helper()
				rec := w.do(method, path, good, false, header...)
				if rec.Code != status || rec.Body.String() != text || rec.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("%s %s %v: %d %v %s", method, path, header, rec.Code, rec.Header(), rec.Body)
				}
				return rec
			}
			for _, method := range []string{"HEAD", "OPTIONS", "PATCH", "POST", "TRACE"} {
				if allow := page(405, "405: Method Not Allowed", method, item).Header().Get("Allow"); allow != "PUT, DELETE, GET" {
					t.Errorf("%s at the item: %s", method, allow)
				}
			}
			for _, method := range []string{"PUT", "DELETE", "POST", "HEAD"} {
				if allow := page(405, "405: Method Not Allowed", method, list).Header().Get("Allow"); allow != "GET" {
					t.Errorf("%s at the list: %s", method, allow)
				}
			}
			page(404, "404: Page Not Found", "GET", item+"/nothing/at/all")
			if k.Scoping == model.Mesh {
				page(404, "404: Page Not Found", "GET", "/"+k.Path+"/x")
			}
			for _, media := range []string{"", "text/plain", "application/xml", "application/json-patch+json", "application/x-www-form-urlencoded"} {
				page(415, "415: Unsupported Media Type", "PUT", item, "Content-Type", media)
			}
			unacceptable := "406: Not Acceptable\n\nAvailable representations: application/json"
			for _, path := range []string{item, list, "/" + k.Path} {
				page(406, unacceptable, "GET", path, "Accept", "text/html")
			}
			page(406, unacceptable, "PUT", item, "Accept", "application/xml")
			page(406, unacceptable, "DELETE", item, "Accept", "image/*")
			w.expect(404, "GET", item, "")
			w.expect(201, "PUT", item+"/", good, "Content-Type", "application/json; charset=utf-8", "Accept", "text/html, */*;q=0.1")
			for _, path := range []string{item + "/", "/" + item, strings.ReplaceAll(item, "/", "//"), strings.TrimSuffix(item, "x") + "%78"} {
				w.expect(200, "GET", path, "")
			}
			if k == mesh.Meshes {
				return
			}
			w.expect(200, "GET", list+"/", "")
		})
	}
}

// FuzzEveryKind: no document breaks the API, and what is stored of one is shown, and would be
// accepted again without a change. The first byte says of which kind the document is.
func FuzzEveryKind(f *testing.F) {
	kinds := offered()
	for i, k := range kinds {
		for _, sample := range samplesOf(f, k) {
			f.Add(uint8(i), []byte(sample.with(map[string]any{"name": "x"}).text(f)))
		}
	}
	a := offeredAPI(f)
	put := func(item string, body []byte) *httptest.ResponseRecorder {
		return request(a.handler, http.MethodPut, item, string(body), "Content-Type", mediaJSON)
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		k := kinds[int(which)%len(kinds)]
		item := collectionOf(k) + "/x"
		switch rec := put(item, body); rec.Code {
		case 400:
			return
		case 200, 201:
		default:
			t.Fatalf("%s %s: %d %s", item, body, rec.Code, rec.Body)
		}
		read := func() []byte {
			rec := request(a.handler, http.MethodGet, item, "")
			if rec.Code != 200 {
				t.Fatalf("%s was stored and is not shown: %d %s", body, rec.Code, rec.Body)
			}
			return rec.Body.Bytes()
		}
		first := read()
		if rec := put(item, first); rec.Code != 200 {
			t.Fatalf("%s is shown as %s and refused: %d %s", body, first, rec.Code, rec.Body)
		}
		var was, is document
		if err := json.Unmarshal(first, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(read(), &is); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(timeless(was), timeless(is)) {
			t.Fatalf("%s is not stable: %s", body, cmp.Diff(timeless(was), timeless(is)))
		}
		for _, path := range []string{item + "?format=k8s", collectionOf(k), "/" + k.Path} {
			if rec := request(a.handler, http.MethodGet, path, ""); rec.Code != 200 || !json.Valid(rec.Body.Bytes()) {
				t.Fatalf("%s after %s: %d %s", path, body, rec.Code, rec.Body)
			}
		}
		if rec := request(a.handler, http.MethodDelete, item, ""); rec.Code != 200 {
			t.Fatalf("%s cannot be deleted: %d %s", body, rec.Code, rec.Body)
		}
	})
}
