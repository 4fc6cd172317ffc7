package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestOneFileAndOneLine: a kind that the rest of the program does not know gets endpoints,
// also below the targets of its references, rules, documents and a place in files. Each
// answer is checked against the OpenAPI document.
func TestOneFileAndOneLine(t *testing.T) {
	kinds := append(gateway.Kinds(), parcels) // the line
	f := setupWith(t, func(o *gatewayapi.Options) {
		o.Gate, o.Collections = admit.New(o.Store, newRevoker(), kinds, o.Now), gatewayapi.CollectionsOf(kinds)
	})
	for _, step := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"PUT", "/services/s", `{"host":"h"}`, 200, ``},
		{"POST", "/services/s/parcels", `{"label":"a","tags":["x"]}`, 201, `"size":"small"`},
		{"POST", "/parcels", `{"label":"b","service":{"name":"s"},"size":"large","weight":50}`, 201, `"weight":50`},
		{"POST", "/parcels", `{"label":"a","service":{"name":"s"}}`, 409, `UNIQUE violation`},
		{"POST", "/parcels", `{"label":"A","service":{"name":"s"}}`, 400, `must be in lower case`},
		{"POST", "/parcels", `{"label":"c","service":{"name":"s"},"weight":11}`, 400, `is too much for a small one`},
		{"POST", "/parcels", `{"label":"c","service":{"name":"s"},"size":"huge"}`, 400, `expected one of: small, large`},
		{"POST", "/parcels", `{"label":"c","service":{"name":"s"},"wieght":1}`, 400, `weight`},
		{"POST", "/parcels", `{"label":"c"}`, 400, `required field missing`},
		{"PATCH", "/parcels/b", `{"weight":60}`, 200, `"weight":60`},
		{"GET", "/parcels/b/service", ``, 200, `"host":"h"`},
		{"GET", "/parcels?tags=x", ``, 200, `"label":"a"`},
		{"GET", "/services/s/parcels?size=1", ``, 200, `"offset"`},
		{"GET", "/tags/x", ``, 200, `"entity_name":"parcels"`},
		{"GET", "/schemas/parcels", ``, 200, `"len_max":32`},
		{"POST", "/schemas/parcels/validate", `{"label":"z","service":{"name":"s"}}`, 200, `successful`},
		{"GET", "/openapi.json", ``, 200, `"parcel_write"`},
		{"GET", "/changes?kind=parcel", ``, 200, `"title":"b"`},
		{"DELETE", "/services/s", ``, 204, ``},
		{"GET", "/parcels", ``, 200, `"data":[]`}, // a reference that cascades
	} {
		w := f.do(step.method, step.path, step.body)
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.says) {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, w.Code, w.Body)
		}
	}
	contractOf(t, f.api).HasEveryRoute(t, 5)

	var entities []*model.Kind
	for _, c := range f.api.Collections {
		entities = append(entities, c.Kind)
	}
	file, err := declarative.Parse("file.yaml", []byte(`{_format_version: "3.0", services: [{name: s, host: h, parcels: [{label: declared, size: large}]}]}`), entities)
	if err == nil {
		err = file.Resolve(f.api.Gate, model.DefaultControlPlane)
	}
	if err == nil {
		_, err = file.Apply(t.Context(), f.api.Gate.As(model.System("test")), model.DefaultControlPlane)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w := f.do(http.MethodGet, "/parcels/declared", ""); !strings.Contains(w.Body.String(), `"size":"large"`) {
		t.Errorf("declared: %d %s", w.Code, w.Body)
	}
}
