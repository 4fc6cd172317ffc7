package gatewayapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
	"github.com/meshgate/meshgate/e2e/golden"
)

// contracts holds a contract for each set of endpoints.
var contracts sync.Map

func contractOf(t testing.TB, api *gatewayapi.API) *openapitest.Contract {
	t.Helper()
	key := fmt.Sprint(api.Token != "", api.ReadOnly != "", api.Revocations != nil, api.Nodes != nil, api.Conditions != nil, api.DryRun != nil, len(api.Collections))
	if c, ok := contracts.Load(key); ok {
		return c.(*openapitest.Contract)
	}
	c := openapitest.Read(t, openAPI(t, api), api.Endpoints())
	contracts.Store(key, c)
	return c
}

// conditions answers like a control plane with a trouble.
func conditions(w http.ResponseWriter, _ *http.Request) {
	_ = httpkit.WriteJSON(w, http.StatusOK, map[string]any{"message": "ready", "mark": "cp-1.3", "conditions": []health.Condition{
		{Name: "store", State: health.OK, Since: time.Unix(0, 0).UTC()},
		{Name: "redis", State: health.Degraded, Reason: "unreachable", Text: "redis does not answer", Since: time.Unix(0, 0).UTC()},
	}})
}

// openAPI returns the document that is served.
func openAPI(t testing.TB, api *gatewayapi.API) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+api.Token)
	w := httptest.NewRecorder()
	api.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func TestOpenAPIDocument(t *testing.T) {
	f := setupWith(t, func(o *gatewayapi.Options) {
		o.Nodes, o.Dumps, o.Conditions, o.Explain = nodestest.New(), nodestest.Dumps{}, conditions, noGateways()
		o.DryRun = dryruntest.New(t, o.Store)
	})
	raw := openAPI(t, f.api)
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/openapi.json", indented.Bytes())
	contractOf(t, f.api)
}

// TestOpenAPIHasEveryRoute checks that each route is in the document, with its answers.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	for _, f := range []*fixture{setup(t, nil), setupWith(t, func(o *gatewayapi.Options) {
		o.Token, o.ReadOnly, o.Revocations = "a-token-for-this-test", "read only", &revocations{}
	})} {
		contractOf(t, f.api).HasEveryRoute(t, 5)
	}
}
