package adminapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/meshgate/meshgate/controlplane/adminapi"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
)

// contract holds answers against the OpenAPI document of an API.
type contract struct {
	validator validator.Validator
	// patterns finds the pattern of a path as the router does.
	patterns *http.ServeMux
	methods  map[string]bool
}

// contracts are built once for each set of endpoints.
var contracts sync.Map

func contractOf(t testing.TB, api *adminapi.API) *contract {
	t.Helper()
	key := fmt.Sprint(api.Token != "", api.ReadOnly != "", api.Revocations != nil, api.Nodes != nil, api.Conditions != nil)
	if c, ok := contracts.Load(key); ok {
		return c.(*contract)
	}
	raw := openAPI(t, api)
	doc, err := libopenapi.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c := &contract{validator: v, patterns: http.NewServeMux(), methods: map[string]bool{}}
	seen := map[string]bool{}
	for _, e := range api.Endpoints() {
		c.methods[e.Method+" "+e.Pattern] = true
		if !seen[e.Pattern] {
			seen[e.Pattern] = true
			c.patterns.HandleFunc(strings.TrimSuffix(e.Pattern, "/")+"/{$}", http.NotFound)
			if e.Pattern != "/" {
				c.patterns.HandleFunc(e.Pattern, http.NotFound)
			}
		}
	}
	contracts.Store(key, c)
	return c
}

// conditions answers as the control plane does that has a trouble.
func conditions(w http.ResponseWriter, _ *http.Request) {
	_ = httpkit.WriteJSON(w, http.StatusOK, map[string]any{"message": "ready", "mark": "cp-1.3", "conditions": []health.Condition{
		{Name: "store", State: health.OK, Since: time.Unix(0, 0).UTC()},
		{Name: "redis", State: health.Degraded, Reason: "unreachable", Text: "redis does not answer", Since: time.Unix(0, 0).UTC()},
	}})
}

// openAPI is the document as it is served.
func openAPI(t testing.TB, api *adminapi.API) []byte {
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

// conforms fails the test if an answer is none that the document promises.
// Paths and methods that do not exist are promised to nobody.
func (c *contract) conforms(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	_, pattern := c.patterns.Handler(httptest.NewRequest(http.MethodGet, r.URL.EscapedPath(), nil))
	if pattern = strings.TrimSuffix(pattern, "{$}"); pattern != "/" {
		pattern = strings.TrimSuffix(pattern, "/")
	}
	if !c.methods[r.Method+" "+pattern] {
		return
	}
	var path []string
	for segment := range strings.SplitSeq(pattern, "/") {
		if strings.HasPrefix(segment, "{") {
			segment = "1"
		}
		path = append(path, segment)
	}
	asked := httptest.NewRequest(r.Method, strings.Join(path, "/"), nil)
	answer := &http.Response{StatusCode: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Request: asked}
	if ok, errs := c.validator.ValidateHttpResponse(asked, answer); !ok {
		for _, e := range errs {
			t.Errorf("%s %s -> %d %s: %s %s %v", r.Method, r.URL, w.Code, w.Body, e.Message, e.Reason, e.SchemaValidationErrors)
		}
	}
}

func TestOpenAPIDocument(t *testing.T) {
	f := setupWith(t, func(o *adminapi.Options) {
		o.Nodes, o.Dumps, o.Conditions = nodestest.New(), nodestest.Dumps{}, conditions
	})
	raw := openAPI(t, f.api)
	const golden = "testdata/openapi.json"
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", " "); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, indented.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("the document differs (-want +got):\n%s", diff)
	}
	if ok, errs := contractOf(t, f.api).validator.ValidateDocument(); !ok {
		t.Errorf("the document is not valid: %v", errs)
	}
}

// TestOpenAPIHasEveryRoute also demands that each says what it answers.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	for _, f := range []*fixture{setup(t, nil), setupWith(t, func(o *adminapi.Options) {
		o.Token, o.ReadOnly, o.Revocations = "a-token-for-this-test", "read only", &revocations{}
	})} {
		var doc struct {
			Paths map[string]map[string]json.RawMessage `json:"paths"`
		}
		if err := json.Unmarshal(openAPI(t, f.api), &doc); err != nil {
			t.Fatal(err)
		}
		for _, e := range f.api.Endpoints() {
			op, ok := doc.Paths[e.Pattern][strings.ToLower(e.Method)]
			var told struct {
				Responses map[string]any `json:"responses"`
			}
			if !ok || json.Unmarshal(op, &told) != nil || len(told.Responses) <= 4 {
				t.Errorf("%s %s is not described: %s", e.Method, e.Pattern, op)
			}
		}
	}
}
