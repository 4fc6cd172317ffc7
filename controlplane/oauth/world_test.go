package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

const scopeName = "default"

// world is an OAuth server over a memory store with two applications.
type world struct {
	t      testing.TB
	db     store.Store
	server *Server
	now    time.Time
	// behind is how long rows are kept after they have ended by the clock.
	behind time.Duration
}

// direct is the write path without revocation, which minting does not need.
type direct struct {
	store.Store
	settled
}

// settled is the part of a write path on which nothing is ever unconfirmed.
type settled struct{}

// Settle implements Writer.
func (settled) Settle(context.Context, ...string) error { return nil }

func (d direct) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return d.Update(ctx, class, fn)
}

// hashedSecret returns the secret of one application, hashed once for all worlds.
var hashedSecret = sync.OnceValues(func() (string, error) { return gateway.HashSecret("hashed-secret") })

func newWorld(t testing.TB, cfg gateway.OAuth2Config) *world {
	w := &world{t: t, now: time.UnixMilli(1_700_000_000_500)}
	db := memstore.Open(memstore.Options{Now: w.clock, Past: func() time.Time { return w.clock().Add(-w.behind) }})
	w.db = db
	t.Cleanup(func() { _ = db.Close() })
	w.fill(cfg)
	return w
}

// clock returns the time of the world; only tests with one goroutine change it.
func (w *world) clock() time.Time { return w.now }

// fill stores two services with a plugin each and some applications, and opens a server.
func (w *world) fill(cfg gateway.OAuth2Config) {
	t := w.t
	if cfg.AuthHeaderName == "" {
		cfg.AuthHeaderName = "authorization"
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	hashed, err := hashedSecret()
	if err != nil {
		t.Fatal(err)
	}
	app := func(id string, a gateway.Application) *model.Resource {
		a.Consumer, a.Name, a.ClientID = "c1", id, id
		if a.ClientType == "" {
			a.ClientType = gateway.ClientConfidential
		}
		return &model.Resource{Kind: gateway.Applications, Scope: scopeName, Name: id, Spec: &a}
	}
	resources := []*model.Resource{
		{Kind: gateway.Services, Scope: scopeName, Name: "s1", Spec: &gateway.Service{Name: "s", Host: "h"}},
		{Kind: gateway.Services, Scope: scopeName, Name: "s2", Spec: &gateway.Service{Name: "other", Host: "h"}},
		{Kind: gateway.Plugins, Scope: scopeName, Name: "p2", Spec: &gateway.Plugin{Name: gateway.PluginOAuth2, Service: "s2", Enabled: true, Config: raw}},
		{Kind: gateway.Plugins, Scope: scopeName, Name: "p1", Spec: &gateway.Plugin{Name: gateway.PluginOAuth2, Enabled: true, Config: raw}},
		{Kind: gateway.Consumers, Scope: scopeName, Name: "c1", Spec: &gateway.Consumer{Username: "alice", CustomID: "x"}},
		app("app", gateway.Application{ClientSecret: "secret", RedirectURIs: []string{"https://a/cb"}}),
		app("rival", gateway.Application{ClientSecret: "rival-secret", RedirectURIs: []string{"https://r/cb"}}),
		app("hashed", gateway.Application{ClientSecret: hashed, HashSecret: true, RedirectURIs: []string{"https://a/cb"}}),
		app("public", gateway.Application{ClientSecret: "other", ClientType: gateway.ClientPublic, RedirectURIs: []string{"https://a/cb"}}),
	}
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for _, r := range resources {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.server = w.open()
}

// open returns another server on the same store.
func (w *world) open() *Server {
	return New(Options{
		Store: w.db, Writer: direct{Store: w.db}, Grants: Grants(), Now: w.clock,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// ask sends a request in the form in which a gateway hands it over.
func (w *world) ask(method, target, contentType, body string, header map[string]string) *httptest.ResponseRecorder {
	return askServer(w.server, method, target, contentType, body, header)
}

func askServer(server *Server, method, target, contentType, body string, header map[string]string) *httptest.ResponseRecorder {
	r := handedOver(method, target, contentType, strings.NewReader(body))
	for k, v := range header {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	server.ServeHTTP(rec, r)
	return rec
}

// handedOver returns a request in the form in which a gateway hands it over.
func handedOver(method, target, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set(contract.HeaderOAuthPlugin, "p1")
	r.Header.Set(contract.HeaderOAuthService, "s1")
	r.Header.Set(contract.HeaderOAuthScheme, "https")
	r.Header.Set(contract.HeaderOAuthClient, "192.0.2.1")
	id, _ := url.Parse("spiffe://meshgate/cp/default/g1")
	leaf := &x509.Certificate{URIs: []*url.URL{id}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	return r
}

// post sends a form to an endpoint and decodes the answer's document.
func (w *world) post(endpoint, body string) (int, map[string]any) {
	w.t.Helper()
	rec := w.ask("POST", "/x/oauth2/"+endpoint, form, body, nil)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		w.t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, doc
}

// newCode obtains a code for the user u, with the challenge of [verifier].
func (w *world) newCode() string { return w.newCodeOf("app") }

// newCodeOf does the same as newCode for another client.
func (w *world) newCodeOf(client string) string {
	w.t.Helper()
	status, doc := w.post("authorize", "provision_key=pk&authenticated_userid=u&client_id="+client+"&response_type=code&scope=email&code_challenge_method=S256&code_challenge="+challenge)
	uri, err := url.Parse(fmt.Sprint(doc["redirect_uri"]))
	if err != nil || status != 200 || uri.Query().Get("code") == "" {
		w.t.Fatalf("authorize: %d %v", status, doc)
	}
	return uri.Query().Get("code")
}

// newPair exchanges a new code.
func (w *world) newPair() (access, refresh string) {
	w.t.Helper()
	status, doc := w.post("token", "grant_type=authorization_code&"+asApp+"&code_verifier="+verifier+"&code="+w.newCode())
	if status != 200 {
		w.t.Fatalf("token: %d %v", status, doc)
	}
	return doc["access_token"].(string), doc["refresh_token"].(string)
}

// lives reports whether an access token is accepted.
func (w *world) lives(access string) bool {
	w.t.Helper()
	s := &Source{Store: w.db, Now: w.clock}
	SameOfItsRow(w.t, s, scopeName, access)
	rec, _, _, err := s.Record(context.Background(), scopeName, contract.HashToken([]byte(access)))
	if err != nil {
		w.t.Fatal(err)
	}
	return rec != nil
}

// SameOfItsRow makes sure that a source says the same of a token, whether it is asked for the
// token or for the row of it.
func SameOfItsRow(t testing.TB, s *Source, scope, token string) {
	t.Helper()
	want, _, revision, wantErr := s.Record(context.Background(), scope, contract.HashToken([]byte(token)))
	var got *contract.Record
	err := s.Store.View(context.Background(), func(r store.Reader) error {
		row, err := r.Find(gateway.Tokens, scope, gateway.IndexAccessToken, gateway.TokenKey(token))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if got, err = s.Made(r, row); got != nil {
			got.Revision = revision
		}
		return err
	})
	if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
		t.Errorf("of its row: %v, %v; %s", err, wantErr, diff)
	}
}

// Source: RFC 7636 appendix B.
const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	asApp     = "client_id=app&client_secret=secret"
)

// strict returns a configuration of the strict profile.
func strict() gateway.OAuth2Config {
	return gateway.OAuth2Config{
		Profile: gateway.ProfileOAuth21, EnableAuthorizationCode: true, EnableClientCredentials: true, ProvisionKey: "pk",
		Scopes: []string{"email"}, TokenExpiration: 60, RefreshTokenTTL: 1000, RefreshTokenGrace: 10,
	}
}

func basicAuth(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}

const form = "application/x-www-form-urlencoded"

// minted returns the hashes of the stored tokens.
func (w *world) minted() (hashes []contract.Hash) {
	w.t.Helper()
	if err := w.db.View(context.Background(), func(tx store.Reader) error {
		rows, err := tx.List(gateway.Tokens, store.Query{Scope: scopeName})
		for _, row := range rows {
			hashes = append(hashes, contract.HashToken([]byte(row.Spec.(*gateway.Token).AccessToken)))
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return hashes
}
