package meshapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
	"github.com/meshgate/meshgate/e2e/golden"
)

// contract is made once, because all tests serve the same endpoints.
var contract struct {
	once sync.Once
	*openapitest.Contract
}

func contractOf(t *testing.T) *openapitest.Contract {
	contract.once.Do(func() {
		a := newAPI(t)
		contract.Contract = openapitest.Read(t, request(a.handler, http.MethodGet, "/openapi.json", "").Body.Bytes(), (&API{a.options}).Endpoints())
		contract.Empty, contract.Unknown = true, []string{"zzz"} // a list shows this text again
	})
	if contract.Contract == nil {
		t.Fatal("the document is not valid, as another test says")
	}
	return contract.Contract
}

// loose reports whether a request is accepted although its body does not follow the document:
// it is YAML, has unknown members that the client allows, or is in snake_case.
func loose(r *http.Request, body string) bool {
	return r.Header.Get("Content-Type") != mediaJSON || r.URL.Query().Has(httpkit.ArgFieldValidation) || strings.Contains(body, "_")
}

// TestOpenAPIDocument: the served document is valid and has every route. It must not change
// by accident.
func TestOpenAPIDocument(t *testing.T) {
	contractOf(t).HasEveryRoute(t, 6)
	var got bytes.Buffer
	if err := json.Indent(&got, request(newAPI(t).handler, http.MethodGet, "/openapi.json", "").Body.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/openapi.golden", got.Bytes())
}

// TestEveryEndpointHasAContract: the contract of each endpoint declares its input and its
// answers.
func TestEveryEndpointHasAContract(t *testing.T) {
	for _, e := range (&API{newAPI(t).options}).Endpoints() {
		if _, ok := e.Contract.Answers[http.StatusBadRequest]; !ok {
			t.Errorf("%s %s says nothing of its answers", e.Method, e.Pattern)
		}
		if writes := e.Method == http.MethodPut || e.Method == http.MethodPost; writes != (e.Contract.Body != "") {
			t.Errorf("%s %s takes %q", e.Method, e.Pattern, e.Contract.Body)
		}
		if len(slices.Compact(slices.Sorted(names(e)))) != len(e.Contract.Query) {
			t.Errorf("%s %s has a parameter twice", e.Method, e.Pattern)
		}
	}
}

func names(e httpkit.Endpoint) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, p := range e.Contract.Query {
			if !yield(p.Name) {
				return
			}
		}
	}
}
