package oauth_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/oauth/oauthtest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arrived is a gatewayapi.Progress for which every proxy has everything.
type arrived struct{}

// Wait implements gatewayapi.Progress.
func (arrived) Wait(context.Context, uint64, func(string, string) bool) (any, error) {
	return map[string]any{}, nil
}

// inProcess is the administration API and the OAuth server on one store. Between them is a
// gateway that only knows prefixes.
type inProcess struct {
	db    store.Store
	admin http.Handler
	oauth *oauth.Server
}

func newTarget(t *testing.T) *inProcess {
	p := &inProcess{db: memstore.New()}
	t.Cleanup(func() { _ = p.db.Close() })
	log := slog.New(slog.DiscardHandler)
	gate := admit.New(p.db, &admittest.Revoker{}, gateway.Kinds(), time.Now)
	p.admin = gatewayapi.New(gatewayapi.Options{
		Store: p.db, Gate: gate, Collections: gatewayapi.Collections(), Progress: arrived{}, Log: log, Now: time.Now, Version: "test",
	}).Handler()
	p.oauth = oauth.New(oauth.Options{
		Store: p.db, Writer: gate, Grants: oauth.Grants(), Log: log, Now: time.Now,
	})
	return p
}

// Admin implements oauthtest.Target.
func (p *inProcess) Admin(method, path string, doc any) (status int, body []byte, err error) {
	var raw []byte
	if doc != nil {
		if raw, err = json.Marshal(doc); err != nil {
			return 0, nil, err
		}
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.admin.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes(), nil
}

// Send implements oauthtest.Target: it hands a request over as a gateway would.
func (p *inProcess) Send(r oauthtest.Request) (*oauthtest.Response, error) {
	kind, body := r.Content()
	in := httptest.NewRequest(r.Method, "https://localhost"+r.Path, strings.NewReader(body))
	if r.Host != "" {
		in.Host = r.Host
	}
	if kind != "" {
		in.Header.Set("Content-Type", kind)
	}
	for name, values := range r.Headers {
		in.Header[http.CanonicalHeaderKey(name)] = values
	}
	for _, v := range in.Header.Values("X-Forwarded-Proto") {
		in.Header.Add(contract.HeaderOAuthProto, v)
	}
	in.Header.Set(contract.HeaderOAuthScheme, r.Scheme)
	in.Header.Set(contract.HeaderOAuthClient, "127.0.0.1")
	if err := p.route(in); err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "meshgate", Path: "/cp/default/g1"}}}
	in.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	w := httptest.NewRecorder()
	p.oauth.ServeHTTP(w, in)
	return &oauthtest.Response{Status: w.Code, Header: w.Result().Header, Body: w.Body.String()}, nil
}

// route finds the plugin that answers a path and names it in the request.
func (p *inProcess) route(r *http.Request) error {
	return p.db.View(r.Context(), func(tx store.Reader) error {
		q := store.Query{Scope: model.DefaultControlPlane}
		routes, err := tx.List(gateway.Routes, q)
		if err != nil {
			return err
		}
		plugins, err := tx.List(gateway.Plugins, q)
		if err != nil {
			return err
		}
		longest, id, service := -1, "", ""
		for _, row := range routes {
			for _, path := range row.Spec.(*gateway.Route).Paths {
				if strings.HasPrefix(r.URL.Path, path) && len(path) > longest {
					longest, id, service = len(path), row.Name, row.Spec.(*gateway.Route).Service
				}
			}
		}
		plugin, _ := gateway.Effective(gateway.PluginOAuth2, id, service, func(at gateway.Attachment) (string, bool) {
			for _, row := range plugins {
				spec := row.Spec.(*gateway.Plugin)
				if target, ok := gateway.AttachmentOf(spec); ok && target == at && spec.Enabled {
					return row.Name, true
				}
			}
			return "", false
		})
		r.Header.Set(contract.HeaderOAuthPlugin, plugin)
		r.Header.Set(contract.HeaderOAuthService, service)
		return nil
	})
}

// TestCases tests the server alone with the cases that need no gateway; e2e/oauth runs all
// cases.
func TestCases(t *testing.T) {
	cases, err := oauthtest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	target, ran := newTarget(t), 0
	for _, c := range cases {
		if !c.OnlyEndpoints() {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			w, err := oauthtest.Make(target, c, map[string]string{"upstream": "80", "authority": "localhost"})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	if ran < 30 {
		t.Errorf("only %d cases", ran)
	}
}
