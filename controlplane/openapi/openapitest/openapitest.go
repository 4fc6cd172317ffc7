// Package openapitest compares the behaviour of an API with the OpenAPI document that it
// serves.
package openapitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Contract is the document of an API, together with its endpoints.
type Contract struct {
	// Empty permits answers without a body even if a body is described, as OpenAPI does. The
	// status must still be described.
	Empty bool
	// Unknown, unless nil, lists the only undeclared parameters with which a request may
	// succeed.
	Unknown   []string
	raw       []byte
	validator validator.Validator
	endpoints []httpkit.Endpoint
}

// Read reads a document in its served form. An invalid document ends the test.
func Read(t testing.TB, raw []byte, endpoints []httpkit.Endpoint) *Contract {
	t.Helper()
	doc, err := libopenapi.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		t.Fatalf("the document is not valid: %v", errs)
	}
	return &Contract{raw: raw, validator: v, endpoints: endpoints}
}

// HasEveryRoute fails the test if an endpoint is not described, or has fewer answers than the
// given number, and if something is described that is not an endpoint.
func (c *Contract) HasEveryRoute(t testing.TB, answers int) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(c.raw, &doc); err != nil {
		t.Fatal(err)
	}
	described := 0
	for _, item := range doc.Paths {
		delete(item, "parameters")
		described += len(item)
	}
	for _, e := range c.endpoints {
		var op struct {
			Responses map[string]any `json:"responses"`
		}
		raw, ok := doc.Paths[e.Pattern][strings.ToLower(e.Method)]
		if !ok || json.Unmarshal(raw, &op) != nil || len(op.Responses) < answers {
			t.Errorf("%s %s is not described: %s", e.Method, e.Pattern, raw)
		}
	}
	if described != len(c.endpoints) {
		t.Errorf("%d operations are described, and there are %d endpoints", described, len(c.endpoints))
	}
}

// Conforms fails the test if the document does not allow an answer, or if a body was accepted
// that it does not permit. loose is set if the body is in another form, which the API accepts
// as well. The document does not cover paths and methods that do not exist.
func (c *Contract) Conforms(t testing.TB, r *http.Request, body string, loose bool, w *httptest.ResponseRecorder) {
	t.Helper()
	e, ok := c.find(r.Method, r.URL.EscapedPath())
	if !ok {
		return
	}
	asked := httptest.NewRequest(r.Method, plain(e.Pattern), strings.NewReader(body))
	asked.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	answer := &http.Response{StatusCode: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Request: asked}
	_, errs := c.validator.ValidateHttpResponse(asked, answer)
	if _, described := e.Contract.Answers[w.Code]; c.Empty && described && w.Body.Len() == 0 {
		errs = nil
	}
	taken := w.Code >= http.StatusOK && w.Code < http.StatusMultipleChoices
	if taken && !loose && e.Contract.Body != "" && body != "" {
		_, more := c.validator.GetRequestBodyValidator().ValidateRequestBody(asked)
		errs = append(errs, more...)
	}
	for name := range r.URL.Query() {
		known := slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == name })
		if c.Unknown != nil && taken && !known && !slices.Contains(c.Unknown, name) {
			t.Errorf("%s %s: nobody declares the parameter %s", r.Method, r.URL, name)
		}
	}
	for _, e := range errs {
		var why []string
		for _, s := range e.SchemaValidationErrors {
			why = append(why, s.FieldPath+" "+s.Reason)
		}
		t.Errorf("%s %s %.500s -> %d %.500s: %s %s", r.Method, r.URL, body, w.Code, w.Body, e.Message, why)
	}
}

// find returns the endpoint of a path by the rules of routers: literal segments have
// precedence over variables, from left to right.
func (c *Contract) find(method, path string) (best httpkit.Endpoint, ok bool) {
	parts, rank := segments(path), ""
	for _, e := range c.endpoints {
		pattern := segments(e.Pattern)
		if e.Method != method || len(pattern) != len(parts) {
			continue
		}
		this := rankOf(pattern, parts)
		if this > rank {
			best, rank, ok = e, this, true
		}
	}
	return best, ok
}

// rankOf returns a greater text for a better match, and an empty one for no match.
func rankOf(pattern, parts []string) string {
	rank := "+"
	for i, p := range pattern {
		switch {
		case p == parts[i]:
			rank += "1"
		case strings.HasPrefix(p, "{") && parts[i] != "":
			rank += "0"
		default:
			return ""
		}
	}
	return rank
}

func segments(path string) []string {
	return strings.Split(strings.Trim(path, "/"), "/")
}

// plain returns a path for a pattern, in which every variable is 1.
func plain(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i := range parts {
		if strings.HasPrefix(parts[i], "{") {
			parts[i] = "1"
		}
	}
	return strings.Join(parts, "/")
}
