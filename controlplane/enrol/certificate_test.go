package enrol

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// certifiedWorld is an enrolment server with the handshakes of the data-plane server, that finds client
// certificates by their control planes and fingerprints.
type certifiedWorld struct {
	*world
	http   *httptest.Server
	trust  *tls.Config
	listed map[[2]string]bool
}

func newCertifiedWorld(t *testing.T) *certifiedWorld {
	t.Helper()
	w := &certifiedWorld{world: newWorld(t), listed: map[[2]string]bool{}}
	w.Tokens.Pinned = func(_ store.Reader, scope, fingerprint string) error {
		if w.listed[[2]string{scope, fingerprint}] {
			return nil
		}
		return fault.New(fault.NotFound, "none")
	}
	known := map[string]string{"default": "default", "team": "scope-1", "scope-1": "scope-1"}
	w.Plane = func(_ context.Context, named string) (string, error) {
		if scope, ok := known[named]; ok {
			return scope, nil
		}
		return "", fault.New(fault.NotFound, "there is no control plane %q", named)
	}
	w.Mesh = &Mesh{Tokens: proxyTokens{}}
	authority, err := identity.OpenAuthority(t.Context(), w.Store, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(Path, w.Server)
	mux.HandleFunc(RenewPath, w.Renew)
	w.http = httptest.NewUnstartedServer(mux)
	w.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.http.TLS = authority.DataPlaneConfig([]string{"127.0.0.1"})
	w.http.StartTLS()
	t.Cleanup(w.http.Close)
	w.trust = &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	return w
}

// lists makes a control plane list a certificate.
func (w *certifiedWorld) lists(scope string, p tls.Certificate) {
	w.listed[[2]string{scope, pemtext.Fingerprint(p.Certificate[0])}] = true
}

// shows returns a client with a certificate, nil for none.
func (w *certifiedWorld) shows(p *tls.Certificate) *http.Client {
	c := w.trust.Clone()
	if p != nil {
		c.NextProtos = []string{contract.ProtocolCertificate, "http/1.1"}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p, nil }
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
}

var instance = gateway.Instance{Listen: "0.0.0.0", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}

// TestCertificates: a gateway gets a token by the key of a certificate that a control plane lists, and by
// nothing else.
func TestCertificates(t *testing.T) {
	w := newCertifiedWorld(t)
	now := time.Now()
	good, other, unlisted := identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour)), identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour)), identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour))
	past, future := identitytest.SelfSigned(t, now.Add(-2*time.Hour), now.Add(-time.Hour)), identitytest.SelfSigned(t, now.Add(time.Hour), now.Add(2*time.Hour))
	w.lists("scope-1", good)
	w.lists("default", other)
	w.lists("scope-1", past)
	w.lists("scope-1", future)
	stolen := tls.Certificate{Certificate: good.Certificate, PrivateKey: other.PrivateKey}
	const self, unlists = "cp/team/gw", "does not list the client certificate with the SHA-256 fingerprint "
	for _, test := range []struct {
		name, node, named string
		show              *tls.Certificate
		want              string // of the refusal
	}{
		{"by the name", self, "team", &good, ""},
		{"by the id", self, "scope-1", &good, ""},
		{"by no name", self, "", &good, "has to name its control plane"},
		{"another control plane", self, "default", &good, unlists},
		{"no control plane", self, "nowhere", &good, unlists},
		{"the certificate of another one", self, "team", &other, unlists},
		{"not listed", self, "team", &unlisted, unlists + pemtext.Fingerprint(unlisted.Certificate[0])},
		{"expired", self, "team", &past, "the client certificate is good from"},
		{"not yet", self, "team", &future, "the client certificate is good from"},
		{"no certificate", self, "team", nil, "token is not valid"},
		{"no instance", "", "team", &good, "name: must be 1 to 63"},
		{"the name of nobody", "cp/team/A_B", "team", &good, "name: must be 1 to 63"},
		{"without the key", self, "team", &stolen, "tls"},
	} {
		token, err := Certify(t.Context(), w.shows(test.show), w.http.URL, test.node, test.named)
		if test.want != "" {
			_, refused := errors.AsType[*Refused](err)
			if err == nil || token != "" || !strings.Contains(err.Error(), test.want) || refused == (test.name == "without the key") {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if answer, err := Enrol(t.Context(), w.shows(test.show), w.http.URL, token, "cp/scope-1/gw", test.named, false, instance); err != nil || answer.Node != "cp/scope-1/gw" {
			t.Errorf("%s: %+v, %v", test.name, answer, err)
		}
	}
}

// TestCertificateAndToken: a token and a client certificate that do not belong together are both worth
// nothing, in every request; and a certificate that is listed no more, or elsewhere, takes its tokens
// along.
func TestCertificateAndToken(t *testing.T) {
	w := newCertifiedWorld(t)
	now := time.Now()
	one, two := identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour)), identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour))
	w.lists("default", one)
	w.lists("default", two)
	bound, err := Certify(t.Context(), w.shows(&one), w.http.URL, "cp/default/gw", "default")
	if err != nil {
		t.Fatal(err)
	}
	enrols := func(p *tls.Certificate, token string) error {
		_, err := Enrol(t.Context(), w.shows(p), w.http.URL, token, "cp/default/gw", "default", false, instance)
		return err
	}
	renews := func(p *tls.Certificate, token string) error {
		_, err := renew(t.Context(), w.shows(p), w.http.URL, http.Header{"Authorization": {"Bearer " + token}, contract.NodeHeader: {"cp/default/gw"}, NamedHeader: {"default"}})
		return err
	}
	proxy := func(p *tls.Certificate, token string) error {
		_, err := Join(t.Context(), w.shows(p), w.http.URL, token, &Proxy{Mesh: "default", Name: "web"})
		return err
	}
	const apart, alone = "was not issued by the client certificate", "only together with the client certificate"
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"its certificate", enrols(&one, bound), ""},
		{"no certificate", enrols(nil, bound), alone},
		{"another certificate", enrols(&two, bound), apart},
		{"a token beside a certificate", enrols(&one, w.token), apart},
		{"a token alone", enrols(nil, w.token), ""},
		{"a forged token", enrols(&one, bound+"x"), "401: the node token"},
		{"renewed without the certificate", renews(nil, bound), "by its client certificate only"},
		{"renewed by another certificate", renews(&two, bound), apart},
		{"renewed beside a token", renews(&one, w.token), apart},
		{"renewed beside garbage", renews(&one, "x"), "is not a token"},
		{"a proxy of a mesh", proxy(&one, "default/web/web"), "client certificates are for gateways"},
		{"a proxy with the token of a gateway", proxy(&one, bound), "client certificates are for gateways"},
		{"a proxy of a mesh renews", renews(&one, "default/web/web"), "is not a token"},
	} {
		if _, refused := errors.AsType[*Refused](test.err); refused != (test.want != "") || refused && !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, test.err)
		}
	}
	clear(w.listed)
	if err := enrols(&one, bound); err == nil || !strings.Contains(err.Error(), "does not list") {
		t.Errorf("listed no more: %v", err)
	}
	w.lists("scope-1", one)
	if err := enrols(&one, bound); err == nil || !strings.Contains(err.Error(), "does not list") {
		t.Errorf("listed elsewhere: %v", err)
	}
}

// TestCertificateListedByOthers: whoever lists the certificate of somebody else, before or after its owner,
// keeps none of its gateways out and gets none of them.
func TestCertificateListedByOthers(t *testing.T) {
	w := newCertifiedWorld(t)
	now := time.Now()
	mine := identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour))
	comes := func(named string) (string, error) {
		token, err := Certify(t.Context(), w.shows(&mine), w.http.URL, "cp/team/gw", named)
		if err != nil {
			return "", err
		}
		_, err = Enrol(t.Context(), w.shows(&mine), w.http.URL, token, "cp/scope-1/gw", named, false, instance)
		return token, err
	}
	w.lists("default", mine) // by a stranger, who is first
	if token, err := comes("team"); err == nil {
		t.Errorf("a gateway comes to who lists its certificate first: %s", token)
	}
	w.lists("scope-1", mine)
	token, err := comes("team")
	if err != nil {
		t.Fatalf("the stranger keeps the owner's gateway out: %v", err)
	}
	delete(w.listed, [2]string{"default", pemtext.Fingerprint(mine.Certificate[0])})
	w.lists("default", mine) // after its owner
	if claims, err := w.Tokens.Check(t.Context(), token); err != nil || claims.NodeID() != "cp/scope-1/gw" {
		t.Errorf("the token of the owner's gateway is of %+v, %v", claims, err)
	}
	if _, err := Enrol(t.Context(), w.shows(&mine), w.http.URL, token, "cp/scope-1/gw", "default", false, instance); err == nil {
		t.Error("the token is good at the control plane of the stranger")
	}
}
