package oauth_test

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// newSameIDWorld has an application "shop" in member b, whose the plugin is, and another one
// of that id, with credentials of its own, in member a.
func newSameIDWorld(t *testing.T) *groupWorld {
	w := newGroupWorld(t)
	w.configure(func(c *gateway.OAuth2Config) { c.Endpoints = true })
	w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
	for member, owner := range map[string]string{"a": "eve", "b": "bob"} {
		w.write(member, gateway.Applications, "shop", &gateway.Application{
			Name: "shop", ClientID: "shop-of-" + member, ClientSecret: "secret-of-" + member, ClientType: gateway.ClientConfidential,
			Consumer: owner, RedirectURIs: []string{"https://x.test/"},
		})
	}
	w.write("b", gateway.Tokens, "t", &gateway.Token{
		Credential: "shop", AccessToken: "access", RefreshToken: "refresh", TokenType: "bearer", AuthenticatedUserID: "alice", ExpiresIn: 7200,
	})
	w.write("b", gateway.Codes, "c", &gateway.Code{Credential: "shop", Plugin: "plugin", Code: "code", AuthenticatedUserID: "alice"})
	return w
}

// configure changes the configuration of the plugin.
func (w *groupWorld) configure(edit func(*gateway.OAuth2Config)) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error {
		res, err := tx.Get(gateway.Plugins, "b", "plugin")
		if err != nil {
			return err
		}
		spec, next := *res.Spec.(*gateway.Plugin), *res
		var c gateway.OAuth2Config
		if err := json.Unmarshal(spec.Config, &c); err != nil {
			return err
		}
		edit(&c)
		if spec.Config, err = json.Marshal(c); err != nil {
			return err
		}
		next.Spec = &spec
		_, err = tx.Update(&next, 0)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// later creates what is younger than all else.
func (w *groupWorld) later(scope string, k *model.Kind, name string, spec any) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Created: time.Now().Add(time.Hour), Spec: spec})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// asShop sends a form for the application of a member, to the route of a service.
func (w *groupWorld) asShop(member, service, endpoint string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	form.Set("client_id", "shop-of-"+member)
	form.Set("client_secret", "secret-of-"+member)
	return w.post("localhost", service, endpoint, form)
}

// post sends a form by a gateway of the group.
func (w *groupWorld) post(host, service, endpoint string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	return w.send(host, "all", "plugin", service, endpoint, "", form)
}

// TestSameIDIsAnotherClient asks with everything that is of an application, as that one and
// as the application of another member that has its id.
func TestSameIDIsAnotherClient(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint string
		form     url.Values
		granted  func(w *groupWorld, status int, doc map[string]any) bool
	}{
		"introspection of a refresh token": {"introspect", url.Values{"token": {"refresh"}}, func(_ *groupWorld, _ int, doc map[string]any) bool {
			return doc["active"] == true
		}},
		"refresh": {"token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"refresh"}}, func(_ *groupWorld, status int, _ map[string]any) bool {
			return status == 200
		}},
		"code": {"token", url.Values{"grant_type": {"authorization_code"}, "code": {"code"}}, func(_ *groupWorld, status int, _ map[string]any) bool {
			return status == 200
		}},
		"revocation of an access token":  {"revoke", url.Values{"token": {"access"}}, revoked},
		"revocation of a refresh token":  {"revoke", url.Values{"token": {"refresh"}}, revoked},
		"revocation with another's hint": {"revoke", url.Values{"token": {"access"}, "token_type_hint": {"refresh_token"}}, revoked},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSameIDWorld(t)
			if status, doc := w.asShop("a", "", c.endpoint, c.form); c.granted(w, status, doc) {
				t.Errorf("the application of another member is answered like the owner: %d %v", status, doc)
			}
			if status, doc := w.asShop("b", "", c.endpoint, c.form); !c.granted(w, status, doc) {
				t.Errorf("the owner is refused: %d %v", status, doc)
			}
		})
	}
}

func revoked(w *groupWorld, _ int, _ map[string]any) bool {
	_, err := w.tokenRow("b", "t")
	return err != nil
}

func (w *groupWorld) tokenRow(scope, name string) (res *model.Resource, err error) {
	err = w.db.View(w.t.Context(), func(r store.Reader) error {
		res, err = r.Get(gateway.Tokens, scope, name)
		return err
	})
	return res, err
}

// TestYoungerNamesakesChangeNothing has another member make, later, what the issuing of b
// goes by: gateways hold the plugin and the service of b, so requests are judged by these.
func TestYoungerNamesakesChangeNothing(t *testing.T) {
	w := newSameIDWorld(t)
	w.write("b", gateway.Services, "svc", &gateway.Service{Name: "svc"})
	w.later("a", gateway.Services, "svc", &gateway.Service{Name: "svc"})
	w.later("a", gateway.Plugins, "plugin", &gateway.Plugin{Name: gateway.PluginOAuth2, Enabled: false, Config: []byte(`{}`)})
	w.later("a", gateway.Applications, "app2", &gateway.Application{Name: "x", ClientID: "x", ClientSecret: "x", Consumer: "eve", RedirectURIs: []string{"https://x.test/"}})
	form := url.Values{"grant_type": {"client_credentials"}}
	if status, doc := w.asShop("b", "svc", "token", form); status != 200 {
		t.Errorf("the plugin of b answers %d %v", status, doc)
	}
}

// TestPluginServesItsOwnMember shows that a plugin that runs everywhere does so on what is
// its own member's.
func TestPluginServesItsOwnMember(t *testing.T) {
	w := newSameIDWorld(t)
	w.write("a", gateway.Services, "svc", &gateway.Service{Name: "svc"})
	if status, doc := w.asShop("b", "svc", "token", url.Values{"grant_type": {"client_credentials"}}); status != 503 {
		t.Errorf("the plugin of b answers on a service of a: %d %v", status, doc)
	}
}

// TestCodesAndTokensForANamesakeOfTheService shows that what is for a service of one member
// is not for that of another one with its id.
func TestCodesAndTokensForANamesakeOfTheService(t *testing.T) {
	w := newSameIDWorld(t)
	w.configure(func(c *gateway.OAuth2Config) { c.GlobalCredentials = false })
	w.write("b", gateway.Services, "svc", &gateway.Service{Name: "svc"})
	w.later("a", gateway.Services, "svc", &gateway.Service{Name: "svc"})
	for member, want := range map[string]int{"a": 400, "b": 200} {
		w.write(member, gateway.Tokens, "bound", &gateway.Token{
			Credential: "shop", Service: "svc", AccessToken: "access-" + member, RefreshToken: "refresh-" + member, TokenType: "bearer", ExpiresIn: 7200,
		})
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"refresh-" + member}}
		if status, doc := w.asShop(member, "svc", "token", form); status != want {
			t.Errorf("a token for the service of %s is refreshed at that of b: %d %v, want %d", member, status, doc, want)
		}
	}
}

// TestIssuerIsNamedByItsOwnMember shows that a member's server names do not say who another
// member's authorisation server is.
func TestIssuerIsNamedByItsOwnMember(t *testing.T) {
	for member, want := range map[string]any{"a": nil, "b": "https://shop.test"} {
		w := newSameIDWorld(t)
		w.write(member, gateway.Certificates, "cert", &gateway.Certificate{})
		w.write(member, gateway.SNIs, "sni", &gateway.SNI{Name: "shop.test", Certificate: "cert"})
		form := url.Values{"token": {"access"}, "client_id": {"shop-of-b"}, "client_secret": {"secret-of-b"}}
		if _, doc := w.post("shop.test", "", "introspect", form); doc["active"] != true || doc["iss"] != want {
			t.Errorf("a server name of %s: %v, want issuer %v", member, doc, want)
		}
	}
}
