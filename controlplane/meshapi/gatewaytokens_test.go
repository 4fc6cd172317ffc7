package meshapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
)

// TestGatewayTokens checks requests for node tokens and their answers, one by one.
func TestGatewayTokens(t *testing.T) {
	h := newAPI(t).handler
	const token = "/tokens/gateway"
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		message                  string
	}{
		{"a revision", "GET", "/revisions/7", "", nil, 200, "revision 7"},
		{"no body", "POST", token, "", nil, 400, "the request is not valid JSON: EOF"},
		{"not JSON", "POST", token, "name=gw", nil, 400, "the request is not valid JSON: invalid character 'a' in literal null (expecting 'u')"},
		{"unknown field", "POST", token, `{"nane":"gw"}`, nil, 400, `the request is not valid JSON: unknown field "nane"; did you mean "name"?`},
		{"a field twice", "POST", token, `{"name":"a","name":"gw"}`, nil, 400, "the request is not valid JSON: name is given twice"},
		{"two objects", "POST", token, `{"name":"gw"} {"name":"a"}`, nil, 400, "the request is not valid JSON: something follows the object"},
		{"too large", "POST", token, `{"name":"` + strings.Repeat("a", maxTokenBody) + `"}`, nil, 400, "the request is larger than 65536 bytes"},
		{"no name", "POST", token, `{}`, nil, 400, badName},
		{"upper case", "POST", token, `{"name":"GW"}`, nil, 400, badName},
		{"a path", "POST", token, `{"name":"../gw"}`, nil, 400, badName},
		{"too long", "POST", token, `{"name":"` + strings.Repeat("a", 64) + `"}`, nil, 400, badName},
		{"no such control plane", "POST", token, `{"name":"gw","controlPlane":"other"}`, nil, 400, "the input is not valid: controlPlane: does not exist"},
		{"days", "POST", token, `{"name":"gw","validFor":"30d"}`, nil, 400, "the input is not valid: validFor: must be a duration such as 720h"},
		{"a number", "POST", token, `{"name":"gw","validFor":"720"}`, nil, 400, "the input is not valid: validFor: must be a duration such as 720h"},
		{"no time at all", "POST", token, `{"name":"gw","validFor":"0s"}`, nil, 400, "the input is not valid: validFor: must be a positive duration"},
		{"the past", "POST", token, `{"name":"gw","validFor":"-1h"}`, nil, 400, "the input is not valid: validFor: must be a positive duration"},
		{"foreign origin", "POST", token, `{"name":"gw"}`, []string{"Origin", "https://evil.example"}, 403, "this API does not answer requests of other origins"},
		{"another site", "POST", token, `{"name":"gw"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "this API does not answer requests of other sites"},
		{"rebound name", "POST", "//evil.example:5681" + token, `{"name":"gw"}`, nil, 403, "this API does not answer to that Host"},
		{"forwarded", "POST", token, `{"name":"gw"}`, []string{"X-Forwarded-For", "192.0.2.1"}, 403, "this API does not answer forwarded requests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rec *httptest.ResponseRecorder
			if host, ok := strings.CutPrefix(test.path, "//"); ok {
				host, path, _ := strings.Cut(host, "/")
				r := httptest.NewRequest(test.method, "http://"+host+"/"+path, strings.NewReader(test.body))
				rec = httptest.NewRecorder()
				h.ServeHTTP(rec, r)
			} else {
				rec = request(h, test.method, test.path, test.body, test.header...)
			}
			var doc struct{ Message string }
			if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
				t.Fatalf("%s: %v", rec.Body, err)
			}
			if rec.Code != test.status || doc.Message != test.message {
				t.Errorf("%d %q, want %d %q", rec.Code, doc.Message, test.status, test.message)
			}
		})
	}
}

const badName = "the input is not valid: name: must be 1 to 63 of a-z, 0-9, '-' and '.', and begin and end with a letter or digit"

// TestTokenIssued requests tokens and verifies them as the data-plane server does.
func TestTokenIssued(t *testing.T) {
	a := newAPI(t)
	h, tokens := a.handler, a.tokens
	for _, test := range []struct {
		body string
		node string
		life time.Duration
	}{
		{`{"name":"gw"}`, "cp/default/gw", identity.GatewayTokenLife},
		{`{"name":"gw-2","controlPlane":"default","validFor":"90m"}`, "cp/default/gw-2", 90 * time.Minute},
	} {
		rec := request(h, "POST", "/tokens/gateway", test.body, "Origin", "http://127.0.0.1:5681")
		if got := rec.Header().Get("Content-Type"); rec.Code != 200 || got != "text/plain; charset=utf-8" {
			t.Fatalf("%s: %d %s %s", test.body, rec.Code, got, rec.Body)
		}
		if got := rec.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control %q", got)
		}
		c, err := tokens.Check(t.Context(), rec.Body.String())
		if err != nil {
			t.Fatal(err)
		}
		if c.NodeID() != test.node || !c.ExpiresAt.Equal(start.Add(test.life)) {
			t.Errorf("%s until %s, want %s until %s", c.NodeID(), c.ExpiresAt, test.node, start.Add(test.life))
		}
	}
}

// TestTokenOfAControlPlane: a token has the scope of the control plane that is named.
func TestTokenOfAControlPlane(t *testing.T) {
	a := newAPI(t)
	a.options.ControlPlaneNamed = func(_ context.Context, named string) (string, error) {
		if named == "team" {
			return "scope-1", nil
		}
		return "", fault.New(fault.NotFound, "there is no control plane %q", named)
	}
	h := Handler(a.options)
	rec := request(h, "POST", "/tokens/gateway", `{"name":"gw","controlPlane":"team"}`, "Origin", "http://127.0.0.1:5681")
	c, err := a.tokens.Check(t.Context(), rec.Body.String())
	if err != nil || c.NodeID() != "cp/scope-1/gw" || identity.GatewayPlane(rec.Body.String()) != "scope-1" {
		t.Errorf("%d %s: %+v, %v", rec.Code, rec.Body, c, err)
	}
	if rec := request(h, "POST", "/tokens/gateway", `{"name":"gw","controlPlane":"other"}`, "Origin", "http://127.0.0.1:5681"); rec.Code != 400 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestBrokenBody: a request whose body breaks off gets no token. Why it broke off may name addresses.
func TestBrokenBody(t *testing.T) {
	h := newAPI(t).handler
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "http://localhost/tokens/gateway", failing{}))
	if want := `{"message":"the request broke off"}`; rec.Code != http.StatusBadRequest || rec.Body.String() != want {
		t.Errorf("%d %s, want 400 %s", rec.Code, rec.Body, want)
	}
}

// failing is a body that breaks off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
