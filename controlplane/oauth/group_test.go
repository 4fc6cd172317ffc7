package oauth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

// groupWorld has an application in member a, and a plugin that is good for all services in
// member b, of one group.
type groupWorld struct {
	t      *testing.T
	db     store.Store
	gate   *admit.Gate
	server *oauth.Server
	source *oauth.Source
}

func newGroupWorld(t *testing.T) *groupWorld {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	groups := scopestest.Resolver{}
	gate := admit.New(db, &admittest.Revoker{}, gateway.Kinds(), time.Now).As(model.System("test"))
	gate.Resolve(groups)
	w := &groupWorld{
		t: t, db: db, gate: gate, source: &oauth.Source{Store: db, Resolver: groups, Now: time.Now},
		server: oauth.New(oauth.Options{
			Store: db, Resolver: groups, Writer: gate, Grants: oauth.Grants(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		}),
	}
	config, err := json.Marshal(gateway.OAuth2Config{
		EnableClientCredentials: true, GlobalCredentials: true, AcceptHTTPIfAlreadyTerminated: true, TokenExpiration: 7200,
		AuthHeaderName: "authorization", PKCE: "lax",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.write("a", gateway.Consumers, "eve", &gateway.Consumer{Username: "eve"})
	w.write("a", gateway.Applications, "app", &gateway.Application{
		Name: "app", ClientID: "client", ClientSecret: "secret", ClientType: gateway.ClientConfidential, Consumer: "eve", RedirectURIs: []string{"https://x.test/"},
	})
	w.write("b", gateway.Plugins, "plugin", &gateway.Plugin{Name: gateway.PluginOAuth2, Enabled: true, Config: config})
	w.members("a", "b")
	return w
}

func (w *groupWorld) tx(fn func(store.Tx) error) error {
	_, err := w.gate.Write(context.Background(), model.Config, fn)
	return err
}

func (w *groupWorld) write(scope string, k *model.Kind, name string, spec any) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *groupWorld) members(scopes ...string) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error { return scopestest.Set(tx, "all", scopes...) }); err != nil {
		w.t.Fatal(err)
	}
}

// ask sends a form to an endpoint by a gateway of the group.
func (w *groupWorld) ask(endpoint string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	form.Set("client_id", "client")
	form.Set("client_secret", "secret")
	r := httptest.NewRequest("POST", "https://localhost/oauth2/"+endpoint, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(contract.HeaderOAuthScheme, "https")
	r.Header.Set(contract.HeaderOAuthClient, "127.0.0.1")
	r.Header.Set(contract.HeaderOAuthPlugin, "plugin")
	leaf := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "meshgate", Path: "/cp/all/g1"}}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, r)
	var doc map[string]any
	_ = json.Unmarshal(out.Body.Bytes(), &doc)
	return out.Code, doc
}

func (w *groupWorld) record(scope, token string) (*contract.Record, error) {
	rec, _, _, err := w.source.Record(context.Background(), scope, contract.HashToken([]byte(token)))
	return rec, err
}

// TestGroupIssuesForItsMembers shows that the plugin of one member issues tokens to the
// application of another, that these are the application's rows, and that they count
// where the application does.
func TestGroupIssuesForItsMembers(t *testing.T) {
	w := newGroupWorld(t)
	status, doc := w.ask("token", url.Values{"grant_type": {"client_credentials"}})
	token, _ := doc["access_token"].(string)
	if status != 200 || token == "" {
		t.Fatalf("no token: %d %v", status, doc)
	}
	for scope, known := range map[string]bool{"all": true, "a": true, "b": false, "other": false} {
		rec, err := w.record(scope, token)
		if err != nil || (rec != nil) != known {
			t.Errorf("in %s: %+v, %v; known must be %v", scope, rec, err, known)
		}
		if rec != nil && (rec.Consumer == nil || rec.Consumer.Username != "eve") {
			t.Errorf("in %s the token belongs to %+v", scope, rec.Consumer)
		}
	}
	w.members("b")
	if rec, err := w.record("all", token); err != nil || rec != nil {
		t.Errorf("the member left, and its token counts: %+v, %v", rec, err)
	}
	if status, doc := w.ask("token", url.Values{"grant_type": {"client_credentials"}}); status == 200 {
		t.Errorf("the member left, and its application gets %v", doc)
	}
	w.members("a", "b")
	if err := w.tx(func(tx store.Tx) error { return tx.Delete(gateway.Consumers, "a", "eve", 0) }); err != nil {
		t.Fatal(err)
	}
	if rec, err := w.record("all", token); err != nil || rec != nil {
		t.Errorf("the consumer is gone, and the token counts: %+v, %v", rec, err)
	}
}

// TestServiceOfAnotherMemberGetsNoToken shows that a token is refused which would refer to
// a service that its deletion could not take it from.
func TestServiceOfAnotherMemberGetsNoToken(t *testing.T) {
	w := newGroupWorld(t)
	err := w.tx(func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: "b", Name: "svc", Spec: &gateway.Service{Name: "svc"}}); err != nil {
			return err
		}
		_, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: "a", Name: "t", Spec: &gateway.Token{Credential: "app", Service: "svc", AccessToken: "x"}})
		return err
	})
	if !fault.Is(err, fault.Dangling) {
		t.Errorf("a token refers to a service of another member: %v", err)
	}
}

// TestTokenOfTwoMembersIsNobodys shows that a conflict among credentials fails closed.
func TestTokenOfTwoMembersIsNobodys(t *testing.T) {
	w := newGroupWorld(t)
	w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
	w.write("a", gateway.Keys, "k1", &gateway.Key{Key: "same", Consumer: "eve"})
	w.write("b", gateway.Keys, "k2", &gateway.Key{Key: "same", Consumer: "bob"})
	hash := contract.HashKey([]byte("same"))
	rec, _, _, err := w.source.Record(context.Background(), "all", hash)
	if rec != nil || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a key of two members: %+v, %v", rec, err)
	}
	if err == nil || strings.Contains(err.Error(), gateway.KeyAuthKey("same")) {
		t.Errorf("the conflict shows the key, or is none: %v", err)
	}
}

// TestNobodyWritesIntoAGroup holds the gate against a write into a group.
func TestNobodyWritesIntoAGroup(t *testing.T) {
	w := newGroupWorld(t)
	err := w.tx(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: "all", Name: "x", Spec: &gateway.Consumer{Username: "x"}})
		return err
	})
	if !fault.Is(err, fault.Forbidden) {
		t.Errorf("a write into a group: %v", err)
	}
}
