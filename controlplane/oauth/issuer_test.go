package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// named stores everything in which an operator names hosts: routes of the service s1, a route
// of another service whose plugin is disabled, and a certificate.
func (w *world) named() {
	w.t.Helper()
	put := func(k *model.Kind, name string, spec any) *model.Resource {
		return &model.Resource{Kind: k, Scope: scopeName, Name: name, Spec: spec}
	}
	resources := []*model.Resource{
		put(gateway.Routes, "r1", &gateway.Route{Service: "s1", Paths: []string{"/x"}}),
		put(gateway.Routes, "r2", &gateway.Route{Service: "s1", Hosts: []string{"Shop.example.com", "api.example.com:8443", "*.wild.example.com"}}),
		put(gateway.Routes, "r3", &gateway.Route{Service: "s2", Hosts: []string{"other.example.com"}}),
		put(gateway.Certificates, "c", &gateway.Certificate{}),
		put(gateway.SNIs, "n1", &gateway.SNI{Name: "tls.example.com", Certificate: "c"}),
		put(gateway.SNIs, "n2", &gateway.SNI{Name: "*.tls.example.com", Certificate: "c"}),
	}
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for _, r := range resources {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// askAt sends a request to a host.
func (w *world) askAt(host, method, path, body string) *httptest.ResponseRecorder {
	return askServer(w.server, method, "https://"+host+path, form, body, map[string]string{contract.HeaderOAuthService: "s1"})
}

// TestIssuer: the issuer is a configured value or a host that the operator named. Other hosts
// from a request are never repeated.
func TestIssuer(t *testing.T) {
	for _, tc := range []struct{ configured, host, want string }{
		{"", "evil.test", ""},
		{"", "evil.test:443", ""},
		{"", "example.com", ""},
		{"", "other.example.com", ""},
		{"", "wild.example.com", ""},
		{"", "a.wild.example.com", ""},
		{"", "a.b.tls.example.com", ""},
		{"", "*.tls.example.com", ""},
		{"", "localhost.evil.test", ""},
		{"", "127.0.0.2", ""},
		{"", "shop.example.com.", ""},
		{"", "api.example.com", ""},
		{"", "api.example.com:9443", ""},
		{"", "localhost", "https://localhost/x"},
		{"", "localhost:8443", "https://localhost:8443/x"},
		{"", "127.0.0.1:8443", "https://127.0.0.1:8443/x"},
		{"", "[::1]:8443", "https://[::1]:8443/x"},
		{"", "SHOP.example.com", "https://shop.example.com/x"},
		{"", "shop.example.com:8443", "https://shop.example.com:8443/x"},
		{"", "api.example.com:8443", "https://api.example.com:8443/x"},
		{"", "tls.example.com", "https://tls.example.com/x"},
		{"", "a.tls.example.com", "https://a.tls.example.com/x"},
		{"https://auth.example.com/shop", "evil.test", "https://auth.example.com/shop"},
		{"https://auth.example.com", "shop.example.com", "https://auth.example.com"},
	} {
		t.Run(fmt.Sprint(tc.configured, " ", tc.host), func(t *testing.T) {
			cfg := strict()
			cfg.Issuer = tc.configured
			w := newWorld(t, cfg)
			w.named()
			var doc map[string]any
			a := w.askAt(tc.host, "POST", "/x/oauth2/authorize", "provision_key=pk&authenticated_userid=u&client_id=app&response_type=code&code_challenge_method=S256&code_challenge="+challenge)
			if err := json.Unmarshal(a.Body.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			uri, err := url.Parse(fmt.Sprint(doc["redirect_uri"]))
			if err != nil || a.Code != 200 || uri.Query().Get("iss") != tc.want || uri.Query().Has("iss") != (tc.want != "") {
				t.Errorf("authorize: %d %s", a.Code, a.Body)
			}
			refused := w.askAt(tc.host, "POST", "/x/oauth2/authorize", "provision_key=pk&authenticated_userid=u&client_id=app&response_type=token&code_challenge_method=S256&code_challenge="+challenge)
			if err := json.Unmarshal(refused.Body.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			uri, err = url.Parse(fmt.Sprint(doc["redirect_uri"]))
			if err != nil || refused.Code != 400 || uri.Query().Get("iss") != tc.want {
				t.Errorf("refused: %d %s", refused.Code, refused.Body)
			}
			access, _ := w.newPair()
			var about introspection
			i := w.askAt(tc.host, "POST", "/x/oauth2/introspect", asApp+"&token="+access)
			if err := json.Unmarshal(i.Body.Bytes(), &about); err != nil || !about.Active || about.Issuer != tc.want {
				t.Errorf("introspect: %d %s", i.Code, i.Body)
			}
			m := w.askAt(tc.host, "GET", pathMetadata+"/x", "")
			var described metadata
			err = json.Unmarshal(m.Body.Bytes(), &described)
			switch {
			case err != nil:
				t.Error(err)
			case tc.want == "" && m.Code != 404:
				t.Errorf("metadata without an issuer: %d %s", m.Code, m.Body)
			case tc.want != "" && (m.Code != 200 || described.Issuer != tc.want || described.TokenEndpoint != tc.want+pathToken):
				t.Errorf("metadata: %d %s", m.Code, m.Body)
			}
		})
	}
}

// TestIssuerOfARoutesPlugin: for a plugin on one route, only the hosts of that route count,
// not those of other routes of the service.
func TestIssuerOfARoutesPlugin(t *testing.T) {
	w := newWorld(t, strict())
	w.named()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		res, err := tx.Get(gateway.Plugins, scopeName, "p1")
		if err != nil {
			return err
		}
		p := *res.Spec.(*gateway.Plugin)
		p.Route = "r1"
		_, err = tx.Update(&model.Resource{Kind: res.Kind, Scope: scopeName, Name: "p1", Spec: &p}, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if m := w.askAt("shop.example.com", "GET", pathMetadata+"/x", ""); m.Code != 404 {
		t.Errorf("%d %s", m.Code, m.Body)
	}
}
