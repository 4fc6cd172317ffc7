package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestTokenRefusals(t *testing.T) {
	cfg := gateway.OAuth2Config{EnableClientCredentials: true, EnablePasswordGrant: true, Scopes: []string{"email", "phone"}, TokenExpiration: 7200, ProvisionKey: "pk"}
	for name, tc := range map[string]struct {
		method, target, kind, body string
		header                     map[string]string
		accept                     bool // accept_http_if_already_terminated
		status                     int
		want                       string
		challenge                  string
	}{
		"nothing sent":               {status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"no grant type":              {body: "client_id=app&client_secret=secret", status: 400, want: `{"error":"unsupported_grant_type","error_description":"Invalid grant_type"}`},
		"grant that does not exist":  {body: "grant_type=device_code&client_id=app&client_secret=secret", status: 400, want: `{"error":"unsupported_grant_type","error_description":"Invalid grant_type"}`},
		"absent grant, wrong secret": {body: "grant_type=implicit&client_id=app&client_secret=wrong", status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"wrong secret":               {body: "grant_type=client_credentials&client_id=app&client_secret=wrong", status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"wrong secret by header": {body: "grant_type=client_credentials", header: map[string]string{"Authorization": basicAuth("app", "wrong")},
			status: 401, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`, challenge: `Basic realm="OAuth2.0"`},
		"unknown client by header": {body: "grant_type=client_credentials", header: map[string]string{"Authorization": basicAuth("nobody", "x")},
			status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"repeated client_id": {body: "grant_type=client_credentials&client_id=app&client_id=app&client_secret=secret",
			status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"empty secret":  {body: "grant_type=client_credentials&client_id=app&client_secret=", status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"hash as proof": {body: "grant_type=client_credentials&client_id=hashed&client_secret=%24pbkdf2-sha512", status: 400, want: `{"error":"invalid_client","error_description":"Invalid client authentication"}`},
		"public client": {body: "grant_type=client_credentials&client_id=public", status: 400, want: `{"error":"unauthorized_client","error_description":"Public clients cannot use the client_credentials grant"}`},
		"public client with a secret": {body: "grant_type=client_credentials&client_id=public&client_secret=x", status: 400,
			want: `{"error":"invalid_request","error_description":"client_secret is disallowed for public clients"}`},
		"unknown scope": {body: "grant_type=client_credentials&client_id=app&client_secret=secret&scope=email+wot&state=s", status: 400,
			want: `{"error":"invalid_scope","error_description":"\"wot\" is an invalid scope","state":"s"}`},
		"scope list": {body: "grant_type=client_credentials&client_id=app&client_secret=secret&scope=email&scope=phone", status: 400,
			want: `{"error":"invalid_scope","error_description":"scope must be a string"}`},
		"user without provision key": {body: "grant_type=client_credentials&client_id=app&client_secret=secret&authenticated_userid=u", status: 400,
			want: `{"error":"invalid_provision_key","error_description":"Invalid provision_key"}`},
		"upgrade": {body: "grant_type=client_credentials&client_id=app&client_secret=secret", header: map[string]string{"Upgrade": "websocket", "Connection": "Upgrade"}, status: 400,
			want: `{"error":"invalid_request","error_description":"A request for another protocol cannot be answered here"}`},
		"plain HTTP": {body: "grant_type=client_credentials&client_id=app&client_secret=secret&state=x", header: map[string]string{contract.HeaderOAuthScheme: "http"}, status: 400,
			want: `{"error":"access_denied","error_description":"You must use HTTPS","state":"x"}`},
		"claimed HTTPS is not believed": {body: "grant_type=client_credentials", header: map[string]string{contract.HeaderOAuthScheme: "http", contract.HeaderOAuthProto: "https", contract.HeaderOAuthClient: "10.1.1.1"},
			status: 400, want: `{"error":"access_denied","error_description":"You must use HTTPS"}`},
		"nobody speaks for the connection": {body: "grant_type=client_credentials", accept: true, header: map[string]string{contract.HeaderOAuthScheme: "http", "X-Forwarded-Proto": "https"},
			status: 400, want: `{"error":"access_denied","error_description":"You must use HTTPS"}`},
		"GET": {method: "GET", status: 405, want: `{"error":"invalid_method","error_description":"The HTTP method GET is invalid for the token endpoint"}`,
			challenge: `Bearer error="invalid_method", error_description="The HTTP method GET is invalid for the token endpoint"`},
		"GET authorize": {method: "GET", target: "/x/oauth2/authorize", status: 405, want: `{"error":"invalid_method","error_description":"The HTTP method GET is invalid for the authorization endpoint"}`,
			challenge: `Bearer error="invalid_method", error_description="The HTTP method GET is invalid for the authorization endpoint"`},
		"authorize": {target: "/x/oauth2/authorize/", status: 400, want: `{"error":"invalid_provision_key","error_description":"Invalid provision_key"}`},
		"oversized": {body: strings.Repeat("a", maxBody+1), status: 400, want: `{"error":"invalid_request","error_description":"The request body is too large or cannot be read"}`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.AcceptHTTPIfAlreadyTerminated = tc.accept
			w := newWorld(t, cfg)
			method, target, kind := tc.method, tc.target, tc.kind
			if method == "" {
				method = http.MethodPost
			}
			if target == "" {
				target = "/x/oauth2/token"
			}
			if kind == "" {
				kind = form
			}
			rec := w.ask(method, target, kind, tc.body, tc.header)
			if rec.Code != tc.status || strings.TrimSpace(rec.Body.String()) != tc.want {
				t.Errorf("got %d %s\nwant %d %s", rec.Code, rec.Body, tc.status, tc.want)
			}
			if got := rec.Header().Get("WWW-Authenticate"); got != tc.challenge {
				t.Errorf("challenge = %q, want %q", got, tc.challenge)
			}
			if rec.Code != http.StatusMethodNotAllowed && rec.Header().Get("Cache-Control") != "no-store" {
				t.Error("a refusal may be cached")
			}
			if len(w.minted()) != 0 {
				t.Error("a token was minted")
			}
		})
	}
}

func TestTokenSuccess(t *testing.T) {
	cfg := gateway.OAuth2Config{EnableClientCredentials: true, Scopes: []string{"email", "phone"}, TokenExpiration: 60, RefreshTokenTTL: 30, ProvisionKey: "pk", AcceptHTTPIfAlreadyTerminated: true}
	for name, tc := range map[string]struct {
		target, kind, body string
		header             map[string]string
		scope, user        string
	}{
		"form":            {kind: form, body: "grant_type=client_credentials&client_id=app&client_secret=secret&scope=phone++email", scope: "phone email"},
		"json":            {kind: "application/json; charset=utf-8", body: `{"grant_type":"client_credentials","client_id":"app","client_secret":"secret","scope":"email"}`, scope: "email"},
		"multipart":       {kind: "multipart/form-data; boundary=B", body: "--B\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--B\r\nContent-Disposition: form-data; name=\"client_id\"\r\n\r\napp\r\n--B\r\nContent-Disposition: form-data; name=\"client_secret\"\r\n\r\nsecret\r\n--B--\r\n"},
		"query":           {target: "?grant_type=client_credentials&client_id=app&client_secret=secret"},
		"body over query": {target: "?client_secret=wrong", kind: form, body: "grant_type=client_credentials&client_id=app&client_secret=secret"},
		"basic":           {kind: form, body: "grant_type=client_credentials", header: map[string]string{"Authorization": basicAuth("app", "secret")}},
		"hashed":          {kind: form, body: "grant_type=client_credentials&client_id=hashed&client_secret=hashed-secret"},
		"user":            {kind: form, body: "grant_type=client_credentials&client_id=app&client_secret=secret&authenticated_userid=u-1&provision_key=pk", user: "u-1"},
		"terminated TLS": {kind: form, body: "grant_type=client_credentials&client_id=app&client_secret=secret", header: map[string]string{
			contract.HeaderOAuthScheme: "http", contract.HeaderOAuthClient: "10.1.1.1", contract.HeaderOAuthProto: "HTTPS"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg)
			rec := w.ask(http.MethodPost, "/oauth2/token"+tc.target, tc.kind, tc.body, tc.header)
			var doc map[string]any
			if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != 200 {
				t.Fatalf("got %d %s", rec.Code, rec.Body)
			}
			token, _ := doc["access_token"].(string)
			if diff := cmp.Diff(map[string]any{"access_token": token, "token_type": "bearer", "expires_in": 60.0}, doc); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if rec.Header().Get("Pragma") != "no-cache" || rec.Header().Get("Cache-Control") != "no-store" {
				t.Error("a token may be cached")
			}
			w.checkRecord(token, tc.scope, tc.user)
		})
	}
}

// checkRecord checks that introspection knows the token until its row ends.
func (w *world) checkRecord(token, scope, user string) {
	w.t.Helper()
	hash := contract.HashToken([]byte(token))
	if len(w.minted()) != 1 || w.minted()[0] != hash {
		w.t.Errorf("minted = %x, want the hash of the token", w.minted())
	}
	s := &Source{Store: w.db, Now: func() time.Time { return w.now }}
	rec, answer, revision, err := s.Record(context.Background(), scopeName, hash)
	if err != nil || rec == nil || answer != contract.Found {
		w.t.Fatalf("Record = %v, %d, %v", rec, answer, err)
	}
	if revision != w.db.Revision() || rec.Revision != revision {
		w.t.Errorf("revision %d and %d, want %d", revision, rec.Revision, w.db.Revision())
	}
	// The row's lifetime of 30 s ends before the token's own 60 s.
	if want := w.now.UnixMilli() + 30_000; rec.Expires != want {
		w.t.Errorf("expires %d, want %d", rec.Expires, want)
	}
	if rec.Scope != scope || rec.UserID != user || rec.Service != "s1" || rec.Consumer.Username != "alice" {
		w.t.Errorf("record = %+v", rec)
	}
	w.now = w.now.Add(30 * time.Second)
	if rec, answer, _, err := s.Record(context.Background(), scopeName, hash); rec != nil || err != nil || answer != contract.Unknown {
		w.t.Errorf("after its row's life: %v, %d, %v", rec, answer, err)
	}
}

func TestOnlyGatewaysMayCall(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	leaf := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "meshgate", Path: "/cp/default/g1"}}}
	for name, state := range map[string]*tls.ConnectionState{
		"no TLS":         nil,
		"no certificate": {},
		"not verified":   {PeerCertificates: []*x509.Certificate{leaf}},
	} {
		r := httptest.NewRequest(http.MethodPost, "/oauth2/token", nil)
		r.Header.Set(contract.HeaderOAuthPlugin, "p1")
		r.TLS = state
		rec := httptest.NewRecorder()
		w.server.ServeHTTP(rec, r)
		if rec.Code != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", name, rec.Code)
		}
	}
}

func TestNeverExpiring(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true, RefreshTokenTTL: 10})
	rec := w.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret=secret", nil)
	if rec.Code != 200 || strings.Contains(rec.Body.String(), "expires_in") {
		t.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	s := &Source{Store: w.db, Now: func() time.Time { return w.now.Add(1000 * time.Hour) }}
	if r, _, _, err := s.Record(context.Background(), scopeName, w.minted()[0]); err != nil || r == nil || r.Expires != 0 {
		t.Errorf("Record = %+v, %v", r, err)
	}
}

// An expired token is distinguished from one that never existed, as long as its row exists.
func TestExpiredIsTold(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true, TokenExpiration: 10})
	rec := w.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret=secret", nil)
	if rec.Code != 200 {
		t.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	for after, want := range map[time.Duration]contract.Answer{10 * time.Second: contract.Found, 11 * time.Second: contract.Expired} {
		s := &Source{Store: w.db, Now: func() time.Time { return w.now.Add(after) }}
		if r, answer, _, err := s.Record(context.Background(), scopeName, w.minted()[0]); err != nil || answer != want || (r != nil) != (want == contract.Found) {
			t.Errorf("after %v: %+v, %d, %v, want %d", after, r, answer, err, want)
		}
	}
	s := &Source{Store: w.db, Now: w.clock}
	if _, answer, _, err := s.Record(context.Background(), scopeName, contract.HashToken([]byte("x"))); err != nil || answer != contract.Unknown {
		t.Errorf("of no token: %d, %v", answer, err)
	}
}

func FuzzParams(f *testing.F) {
	f.Add("a=b&a=c&d", form, "grant_type=client_credentials&x")
	f.Add("", "application/json", `{"a":[1,null,{"b":true}],"scope":"x"}`)
	f.Add("%zz=1", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--")
	f.Fuzz(func(t *testing.T, query, kind, body string) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{RawQuery: query}, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
		p, err := readParams(httptest.NewRecorder(), r)
		if err == nil && len(p.values) > maxParams {
			t.Errorf("%d parameters", len(p.values))
		}
		if err != nil {
			return
		}
		for k, v := range p.values {
			if v == nil {
				t.Errorf("parameter %q is present without a value", k)
			}
		}
	})
}
