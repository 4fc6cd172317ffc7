package assembly

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// TestMeshOpenAPI: the document of the mesh API with every kind of this program is valid. A
// new mesh conforms to it, in requests and in answers.
func TestMeshOpenAPI(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	kinds := slices.Concat(mesh.Kinds(), all.Kinds())
	for _, k := range kinds {
		if k.Document != nil && k.Document.Schema == nil {
			t.Errorf("nothing describes the kind %s", k.Name)
		}
	}
	api := &meshapi.API{Options: meshapi.Options{
		Kinds: kinds, Store: s, Writer: admit.New(s, &admittest.Revoker{}, kinds, time.Now).As(model.System("test")),
	}}
	handler := meshapi.Handler(api.Options)
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	contract := openapitest.Read(t, ask(http.MethodGet, "/openapi.json", "").Body.Bytes(), api.Endpoints())
	contract.Empty = true
	contract.HasEveryRoute(t, 6)
	check := func(method, path, body string) {
		t.Helper()
		w := ask(method, path, body)
		if w.Code >= http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Content-Type", "application/json")
		contract.Conforms(t, r, body, false, w)
	}
	check(http.MethodPut, "/meshes/m", `{"type":"Mesh","name":"m","mtls":{"enabledBackend":"ca","backends":[{"name":"ca","type":"builtin"}]}}`)
	for _, d := range all.Defaults() {
		name := d.Prefix + "m"
		raw, err := model.EncodeDocument(&model.Resource{Kind: d.Kind, Scope: "m", Name: name, Spec: d.Spec()})
		if err != nil {
			t.Fatal(err)
		}
		path := "/meshes/m/" + d.Kind.Path
		check(http.MethodPut, path+"/"+name, string(raw))
		check(http.MethodGet, path+"/"+name, "")
		check(http.MethodGet, path, "")
	}
}
