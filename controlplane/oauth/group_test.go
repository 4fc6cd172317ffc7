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
	"github.com/meshgate/meshgate/controlplane/revoke"
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
	groups scopestest.Resolver
}

// nobody lets no node in.
type nobody struct{}

// Authenticate implements revoke.Authenticator.
func (nobody) Authenticate(context.Context, string, string) (revoke.Node, error) {
	return revoke.Node{}, fault.New(fault.Denied, "no node is let in")
}

func newGroupWorld(t *testing.T) *groupWorld {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	groups := scopestest.Resolver{}
	source := &oauth.Source{Store: db, Resolver: groups, Now: time.Now}
	revoker, err := revoke.New(t.Context(), revoke.Options{
		Store: db, Subjects: oauth.Subjects(), Source: source, Auth: nobody{}, Allowed: func(revoke.Node, string) bool { return false },
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = revoker.Close(context.Background()) })
	gate := admit.New(db, &admittest.Revoker{OnStage: revoker.Stage}, gateway.Kinds(), time.Now).As(model.System("test"))
	gate.Resolve(groups)
	w := &groupWorld{
		groups: groups, t: t, db: db, gate: gate, source: source,
		server: oauth.New(oauth.Options{
			Store: db, Resolver: groups, Writer: gate, Grants: oauth.Grants(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		}),
	}
	w.write("a", gateway.Consumers, "eve", &gateway.Consumer{Username: "eve"})
	w.write("a", gateway.Applications, "app", application("client", "secret", "eve"))
	w.write("b", gateway.Plugins, "plugin", w.plugin("", func(c *gateway.OAuth2Config) { c.GlobalCredentials = true }))
	w.members("a", "b")
	return w
}

func application(client, secret, consumer string) *gateway.Application {
	return &gateway.Application{
		Name: client, ClientID: client, ClientSecret: secret, ClientType: gateway.ClientConfidential, Consumer: consumer, RedirectURIs: []string{"https://x.test/"},
	}
}

// plugin is an instance at a service, or one that runs everywhere.
func (w *groupWorld) plugin(service string, change ...func(*gateway.OAuth2Config)) *gateway.Plugin {
	w.t.Helper()
	config := gateway.OAuth2Config{
		EnableClientCredentials: true, EnableAuthorizationCode: true, EnablePasswordGrant: true, AcceptHTTPIfAlreadyTerminated: true,
		TokenExpiration: 7200, AuthHeaderName: "authorization", PKCE: "lax", ProvisionKey: "provision", Endpoints: true,
	}
	for _, set := range change {
		set(&config)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return &gateway.Plugin{Name: gateway.PluginOAuth2, Service: service, Enabled: true, Config: raw}
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

// ask sends a form to an endpoint by a gateway of the group, as the application of a.
func (w *groupWorld) ask(endpoint string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	return w.askAt("all", "plugin", "", endpoint, form)
}

// askAt sends a form by a gateway of a control plane, on a route with that plugin and
// service.
func (w *groupWorld) askAt(scope, plugin, service, endpoint string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	if !form.Has("client_id") {
		form.Set("client_id", "client")
		form.Set("client_secret", "secret")
	}
	return w.send("localhost", scope, plugin, service, endpoint, "", form)
}

// askBasic asks for a token as the client of an Authorization header.
func (w *groupWorld) askBasic(scope, plugin, authorization string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	return w.send("localhost", scope, plugin, "", "token", authorization, form)
}

// send sends a form to a host by a gateway of a control plane.
func (w *groupWorld) send(host, scope, plugin, service, endpoint, authorization string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	r := httptest.NewRequest("POST", "https://"+host+"/oauth2/"+endpoint, strings.NewReader(form.Encode()))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(contract.HeaderOAuthScheme, "https")
	r.Header.Set(contract.HeaderOAuthClient, "127.0.0.1")
	r.Header.Set(contract.HeaderOAuthPlugin, plugin)
	r.Header.Set(contract.HeaderOAuthService, service)
	leaf := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "meshgate", Path: "/cp/" + scope + "/g1"}}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, r)
	var doc map[string]any
	_ = json.Unmarshal(out.Body.Bytes(), &doc)
	return out.Code, doc
}

func (w *groupWorld) record(scope, token string) (*contract.Record, error) {
	for _, of := range []string{"a", "b", "c"} {
		oauth.SameOfItsRow(w.t, w.source, of, token)
	}
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
