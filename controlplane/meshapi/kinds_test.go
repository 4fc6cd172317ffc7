package meshapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi/meshapitest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// offered lists the kinds that the program offers. Everything in this file follows from them: a new
// kind needs nothing here but a sample.
func offered() []*model.Kind {
	return slices.DeleteFunc(slices.Concat(mesh.Kinds(), all.Kinds()), func(k *model.Kind) bool { return k.Document == nil })
}

// document is a resource as a client writes it.
type document map[string]any

// with returns a copy with other members.
func (d document) with(more map[string]any) document {
	d = maps.Clone(d)
	maps.Copy(d, more)
	return d
}

func (d document) text(t testing.TB) string {
	t.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// samplesOf returns valid documents of a kind, without names.
func samplesOf(t testing.TB, k *model.Kind) (out []document) {
	t.Helper()
	for _, d := range meshapitest.Samples(t, "../..", k) {
		out = append(out, d)
	}
	return out
}

// collectionOf returns the path of the resources of a kind in mesh m.
func collectionOf(k *model.Kind) string {
	if k.Scoping == model.Mesh {
		return "/meshes/m/" + k.Path
	}
	return "/" + k.Path
}

var whole struct {
	once sync.Once
	*openapitest.Contract
}

// world is an API with all offered kinds and mesh m.
type world struct {
	*testing.T
	*api
	contract *openapitest.Contract
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, api: offeredAPI(t)}
	whole.once.Do(func() {
		doc := request(w.handler, http.MethodGet, "/openapi.json", "").Body.Bytes()
		whole.Contract = openapitest.Read(t, doc, (&API{w.options}).Endpoints())
		whole.Empty = true
	})
	if w.contract = whole.Contract; w.contract == nil {
		t.Fatal("the document is not valid, as another test says")
	}
	return w
}

// offeredAPI is an API with all offered kinds, all that is known of their lives, and mesh m, in which
// there is nothing yet.
func offeredAPI(t testing.TB, change ...func(*Options)) *api {
	c := &clock{now: start}
	a := newAPI(t, func(o *Options) {
		o.Kinds, o.Policies = offered(), nil
		for _, f := range change {
			f(o)
		}
		gate := admit.New(o.Store, &admittest.Revoker{}, o.Kinds, c.read).As(model.System("test"))
		lifecycle.Hook(gate, lives())
		o.Writer = gate
	})
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"`+noPolicies+`}`)
	if rec := request(a.handler, http.MethodDelete, "/meshes/m/secrets/"+mesh.TokenSigningKey+"m-1?force=true", ""); rec.Code != http.StatusOK {
		t.Fatal(rec.Code, rec.Body)
	}
	return a
}

// do sends a request and holds the answer against the OpenAPI document. tolerated says that the
// API accepts the body although the document does not describe it.
func (w *world) do(method, path, body string, tolerated bool, header ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:5681"+path, strings.NewReader(body))
	if method == http.MethodPut {
		r.Header.Set("Content-Type", mediaJSON)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	w.contract.Conforms(w.T, r, body, tolerated, rec)
	return rec
}

// expect is do for requests whose status is known.
func (w *world) expect(status int, method, path, body string, header ...string) *httptest.ResponseRecorder {
	w.Helper()
	rec := w.do(method, path, body, false, header...)
	if rec.Code != status {
		w.Fatalf("%s %s %.2000s: %d %s, want %d", method, path, body, rec.Code, rec.Body, status)
	}
	return rec
}

// read returns a resource as it is shown.
func (w *world) read(path string) (d document) {
	w.Helper()
	if err := json.Unmarshal(w.expect(200, http.MethodGet, path, "").Body.Bytes(), &d); err != nil {
		w.Fatal(err)
	}
	return d
}

// timeless returns a document without the time of its last write.
func timeless(d document) document {
	d = maps.Clone(d)
	delete(d, "modificationTime")
	return d
}

// TestEverySampleIsAFixedPoint: what is shown of a resource can be sent back, and is then the same.
func TestEverySampleIsAFixedPoint(t *testing.T) {
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, item := newWorld(t), collectionOf(k)+"/x"
			for i, sample := range samplesOf(t, k) {
				created := w.expect(201, "PUT", item, sample.with(map[string]any{"name": "x"}).text(t))
				if created.Body.Len() > 0 || created.Header().Get("Content-Length") != "0" || created.Header().Get("Content-Type") != "" || created.Header().Get(HeaderRevision) == "" {
					t.Errorf("sample %d is answered with %v %s", i, created.Header(), created.Body)
				}
				first := w.read(item)
				w.expect(200, "PUT", item, first.text(t))
				second := w.read(item)
				if diff := cmp.Diff(timeless(first), timeless(second)); diff != "" {
					t.Errorf("sample %d (-first +second):\n%s", i, diff)
				}
				if first["creationTime"] != first["modificationTime"] || second["modificationTime"] == first["modificationTime"] {
					t.Errorf("sample %d: times %v, then %v", i, first["modificationTime"], second["modificationTime"])
				}
				for _, other := range k.Document.OtherPaths {
					if diff := cmp.Diff(second, w.read(strings.Replace(item, k.Path, other, 1))); diff != "" {
						t.Errorf("at %s: %s", other, diff)
					}
				}
				w.expect(200, "DELETE", item, "")
			}
		})
	}
}

// TestEveryKindIsListed: lists of every kind have pages and filters, and refuse what is no page.
func TestEveryKindIsListed(t *testing.T) {
	for _, k := range offered() {
		t.Run(k.Document.Type, func(t *testing.T) {
			w, sample := newWorld(t), samplesOf(t, k)[0]
			names := []string{"a-1", "a-2", "b-1", "b-2", "c"}
			for _, name := range names {
				w.expect(201, "PUT", collectionOf(k)+"/"+name, sample.with(map[string]any{"name": name}).text(t))
			}
			if k == mesh.Meshes {
				names = append(names, "m")
			}
			for _, list := range slices.Compact([]string{collectionOf(k), "/" + k.Path}) {
				w.pages(list, names)
				if p := w.page(list + "?name=b-"); p.Total != 2 || p.Items[0].Name != "b-1" || p.Items[1].Name != "b-2" {
					t.Errorf("%s?name=b-: %+v", list, p)
				}
				for _, query := range []string{"offset=9223372036854775807", "offset=100&size=1000", "name=none"} {
					if p := w.page(list + "?" + query); len(p.Items) > 0 || p.Next != nil {
						t.Errorf("%s?%s: %+v", list, query, p)
					}
				}
				for query, field := range map[string]string{
					"size=-1": "size", "size=1001": "size", "size=x": "size", "size=9223372036854775808": "size", "size=1.5": "size", "size=%31%30%30%30%30": "size",
					"offset=-1": "offset", "offset=9223372036854775808": "offset", "offset=x": "offset", "offset=0x1": "offset",
				} {
					rec := w.expect(400, "GET", list+"?"+query, "")
					if detail := `"detail": "Invalid ` + map[string]string{"size": "page size", "offset": "offset"}[field] + `"`; !strings.Contains(rec.Body.String(), detail) || !strings.Contains(rec.Body.String(), `"field": "`+field+`"`) {
						t.Errorf("%s?%s: %s", list, query, rec.Body)
					}
				}
			}
		})
	}
}

func (w *world) page(path string) shownPage {
	w.Helper()
	return readPage(w, w.expect(200, "GET", path, ""))
}

// pages follows next through a list.
func (w *world) pages(list string, want []string) {
	w.Helper()
	var got []string
	for next := list + "?size=2"; ; {
		p := w.page(next)
		for _, item := range p.Items {
			got = append(got, item.Name)
		}
		if p.Total != len(want) || len(got) > len(want) {
			w.Fatalf("%s: %v of %d, want %v", next, got, p.Total, want)
		}
		if p.Next == nil {
			break
		}
		next = strings.TrimPrefix(*p.Next, "http://127.0.0.1:5681")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", list, diff)
	}
}
