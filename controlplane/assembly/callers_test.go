package assembly

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// signedBy makes a certificate; without a parent it is an authority.
func signedBy(t *testing.T, parent *tls.Certificate, subject pkix.Name) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost"},
	}
	by, signer := c, any(key)
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	} else {
		by, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// issuerOf runs an issuer, and returns its URL and what makes its tokens.
func issuerOf(t *testing.T) (url string, token func(sub string, groups ...string) string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := base64.RawURLEncoding
		doc := map[string]any{"issuer": url, "jwks_uri": url + "/keys"}
		if r.URL.Path == "/keys" {
			doc = map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "k", "n": e.EncodeToString(key.N.Bytes()), "e": "AQAB"}}}
		}
		_ = json.NewEncoder(w).Encode(doc)
	}))
	t.Cleanup(s.Close)
	url = s.URL
	return url, func(sub string, groups ...string) string {
		j := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"iss": url, "aud": "meshgate", "sub": sub, "groups": groups, "exp": time.Now().Add(time.Hour).Unix()})
		j.Header["kid"] = "k"
		signed, err := j.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
}

// TestCallers starts a control plane with roles, and calls both APIs over TLS as users of every
// origin: user tokens, client certificates, an issuer, the administration token, and nobody.
func TestCallers(t *testing.T) {
	clients := signedBy(t, nil, pkix.Name{CommonName: "clients"})
	caFile := filepath.Join(t.TempDir(), "clients.pem")
	if err := os.WriteFile(caFile, pemtext.Certificate(clients.Certificate[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	url, issued := issuerOf(t)
	cp := startServing(t, config.Config{
		Admin: config.AdminPorts{Token: "the-token-of-this-test"}, Tokens: config.Tokens{Issuing: true},
		Access: config.Access{
			Anonymous: true, BootstrapAdminToken: true, ClientCAFile: caFile,
			OIDC: config.OIDC{Issuer: url, Audience: "meshgate", UserClaim: "sub", GroupsClaim: "groups"},
			Roles: []access.Role{
				{Role: "viewer", All: true, Groups: []string{"viewers"}},
				{Role: "admin", All: true, Groups: []string{"admins"}},
				{Role: "editor", Meshes: []string{"default"}, Groups: []string{"editors"}},
				{Role: "editor", ControlPlanes: []string{"default"}, Users: []string{"gus"}},
			},
		},
	}, slog.New(slog.DiscardHandler))
	var first string
	if err := cp.store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.GlobalSecrets, "", mesh.AdminUserToken)
		if err == nil {
			first = string(res.Spec.(*mesh.Secret).Data)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	user := func(name string, groups ...string) string { return userToken(t, cp, name, groups...) }
	cert := func(cn string, groups ...string) *tls.Certificate {
		c := signedBy(t, &clients, pkix.Name{CommonName: cn, Organization: groups})
		return &c
	}
	node, err := cp.authority.Node("cp/default/gw")
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := tls.X509KeyPair(node.Certificate, node.Key)
	if err != nil {
		t.Fatal(err)
	}
	vi, root := cert("vi", "viewers"), cert("root", "admins")
	for name, test := range map[string]struct {
		token  string
		cert   *tls.Certificate
		origin string
		// header holds more, which may be credentials, too.
		header http.Header
		// The answers to reading and writing a mesh, to reading secrets, and to reading
		// services, consumers' keys and writing services of gateways.
		want string
	}{
		"nobody":                 {want: "401 401 401 401 401 401"},
		"the first token":        {token: first, want: "200 200 200 200 200 201"},
		"a user without a role":  {token: user("bob"), want: "403 403 403 403 403 403"},
		"a viewer":               {token: user("vi", "viewers"), want: "200 403 403 200 403 403"},
		"an editor of the mesh":  {token: user("ed", "editors"), want: "200 200 403 403 403 403"},
		"an editor of gateways":  {token: user("gus"), want: "403 403 403 200 200 201"},
		"a forged token":         {token: "a.b.c", want: "401 401 401 401 401 401"},
		"a viewer's certificate": {cert: vi, want: "200 403 403 200 403 403"},
		"that of a page":         {cert: vi, origin: "https://evil.example", want: "403 403 403 403 403 403"},
		"reserved groups":        {cert: cert("vi", model.GroupAdministrator), want: "403 403 403 403 403 403"},
		"that of a gateway":      {cert: &gateway, want: "401 401 401 401 401 401"},
		"the issuer's viewer":    {token: issued("vi", "viewers"), want: "200 403 403 200 403 403"},
		"the issuer's admin":     {token: issued(model.UserAdministrator), want: "401 401 401 401 401 401"},
		"the issuer's group":     {token: issued("x", model.GroupAdministrator), want: "403 403 403 403 403 403"},
		"administration token":   {token: "the-token-of-this-test", want: "401 401 401 200 200 201"},

		// Of two credentials the first that is looked at decides, and one that does not count is
		// never made good by another.
		"an administrator's certificate":         {cert: root, want: "200 200 200 200 200 201"},
		"a forged token beside it":               {token: "a.b.c", cert: root, want: refusedEverywhere},
		"an empty token beside it":               {header: http.Header{"Authorization": {"Bearer "}}, cert: root, want: refusedEverywhere},
		"a viewer's token beside it":             {token: user("vi", "viewers"), cert: root, want: "200 403 403 200 403 403"},
		"the issuer's viewer beside it":          {token: issued("vi", "viewers"), cert: root, want: "200 403 403 200 403 403"},
		"the first token beside a viewer's":      {token: first, cert: vi, want: "200 200 200 200 200 201"},
		"another scheme":                         {header: http.Header{"Authorization": {"Basic cm9vdDpyb290"}}, want: refusedEverywhere},
		"another scheme beside a certificate":    {header: http.Header{"Authorization": {"Basic cm9vdDpyb290"}}, cert: root, want: refusedEverywhere},
		"the scheme in capitals beside it":       {header: http.Header{"Authorization": {"BEARER " + first}}, cert: root, want: refusedEverywhere},
		"two tokens":                             {header: http.Header{"Authorization": {"Bearer " + first, "Bearer " + first}}, want: refusedEverywhere},
		"two tokens beside a certificate":        {header: http.Header{"Authorization": {"Bearer a.b.c", "Bearer " + first}}, cert: root, want: refusedEverywhere},
		"administration token in its own header": {header: http.Header{httpkit.HeaderAdminToken: {"the-token-of-this-test"}}, want: "401 401 401 200 200 201"},
		"that beside a viewer's certificate":     {header: http.Header{httpkit.HeaderAdminToken: {"the-token-of-this-test"}}, cert: vi, want: "200 403 403 200 200 201"},
		"a wrong one":                            {header: http.Header{httpkit.HeaderAdminToken: {"wrong"}}, want: refusedEverywhere},
		"a wrong one beside a certificate":       {header: http.Header{httpkit.HeaderAdminToken: {"wrong"}}, cert: root, want: "200 200 200 401 401 401"},
		"an empty one beside a certificate":      {header: http.Header{httpkit.HeaderAdminToken: {""}}, cert: root, want: "200 200 200 401 401 401"},
		"a wrong one beside a token":             {header: http.Header{httpkit.HeaderAdminToken: {"wrong"}}, token: first, want: "200 200 200 401 401 401"},
		"both headers":                           {header: http.Header{httpkit.HeaderAdminToken: {"the-token-of-this-test"}}, token: first, want: "200 200 200 401 401 401"},
	} {
		pool := cp.authority.Pool()
		conf := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		if test.cert != nil {
			conf.Certificates = []tls.Certificate{*test.cert}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
		var got []string
		for i, call := range []struct {
			port         int
			method, path string
			body         string
		}{
			{cp.MeshTLSPort(), "GET", "/meshes/default", ""},
			{cp.MeshTLSPort(), "PUT", "/meshes/default/dataplanes/d", `{"type":"Dataplane","mesh":"default","name":"d","networking":{"address":"10.0.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"d"}}]}}`},
			{cp.MeshTLSPort(), "GET", "/global-secrets", ""},
			{port(cp.ports.adminTLS), "GET", "/services", ""},
			{port(cp.ports.adminTLS), "GET", "/key-auths", ""},
			{port(cp.ports.adminTLS), "POST", "/services", `{"url":"http://127.0.0.1:1"}`},
		} {
			r, err := http.NewRequestWithContext(t.Context(), call.method, fmt.Sprintf("https://localhost:%d%s", call.port, call.path), strings.NewReader(call.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if test.token != "" {
				r.Header.Set("Authorization", "Bearer "+test.token)
			}
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			maps.Copy(r.Header, test.header)
			a, err := client.Do(r)
			if err != nil {
				got = []string{"none"}
				break
			}
			_ = a.Body.Close()
			status := a.StatusCode
			if i == 1 && status == http.StatusCreated {
				status = http.StatusOK // whoever comes first creates it
			}
			got = append(got, fmt.Sprint(status))
		}
		client.CloseIdleConnections()
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}

// refusedEverywhere are the answers to a credential that does not count.
const refusedEverywhere = "401 401 401 401 401 401"

// TestCallersOfStaticAccess calls a control plane without roles, which gives rights by access.static: they
// go by who a credential names, whichever kind it is, and not by what is shown beside one that counts.
func TestCallersOfStaticAccess(t *testing.T) {
	clients := signedBy(t, nil, pkix.Name{CommonName: "clients"})
	caFile := filepath.Join(t.TempDir(), "clients.pem")
	if err := os.WriteFile(caFile, pemtext.Certificate(clients.Certificate[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	url, issued := issuerOf(t)
	for _, local := range []bool{false, true} {
		cp := startServing(t, config.Config{
			Tokens: config.Tokens{Issuing: true},
			Access: config.Access{
				Anonymous: true, LocalhostIsAdmin: local, BootstrapAdminToken: true, ClientCAFile: caFile,
				OIDC:   config.OIDC{Issuer: url, Audience: "meshgate", UserClaim: "sub", GroupsClaim: "groups"},
				Static: config.Static{ViewConfigDump: config.Named{Users: []string{"vi"}, Groups: []string{"dumpers"}}},
			},
		}, slog.New(slog.DiscardHandler))
		cert := func(cn string, groups ...string) *tls.Certificate {
			c := signedBy(t, &clients, pkix.Name{CommonName: cn, Organization: groups})
			return &c
		}
		for name, test := range map[string]struct {
			authorization []string
			cert          *tls.Certificate
			want          int
		}{
			"nobody":                           {want: 403},
			"the user's token":                 {authorization: []string{"Bearer " + userToken(t, cp, "vi")}, want: 404},
			"the group's token":                {authorization: []string{"Bearer " + userToken(t, cp, "x", "dumpers")}, want: 404},
			"another user's token":             {authorization: []string{"Bearer " + userToken(t, cp, "x")}, want: 403},
			"the issuer's token":               {authorization: []string{"Bearer " + issued("vi")}, want: 404},
			"the issuer's group":               {authorization: []string{"Bearer " + issued("x", "dumpers")}, want: 404},
			"the user's certificate":           {cert: cert("vi"), want: 404},
			"the group's certificate":          {cert: cert("x", "dumpers"), want: 404},
			"another user's certificate":       {cert: cert("x"), want: 403},
			"a forged token beside it":         {authorization: []string{"Bearer a.b.c"}, cert: cert("vi"), want: 401},
			"another user's token beside it":   {authorization: []string{"Bearer " + userToken(t, cp, "x")}, cert: cert("vi"), want: 403},
			"the token beside another's":       {authorization: []string{"Bearer " + userToken(t, cp, "vi")}, cert: cert("x"), want: 404},
			"another scheme beside it":         {authorization: []string{"Basic dmk6dmk="}, cert: cert("vi"), want: 401},
			"two tokens beside it":             {authorization: []string{"Bearer " + userToken(t, cp, "vi"), "Bearer a.b.c"}, cert: cert("vi"), want: 401},
			"another scheme and nothing else":  {authorization: []string{"Basic dmk6dmk="}, want: 403},
			"two forged tokens and no further": {authorization: []string{"Bearer a.b.c", "Bearer a.b.c"}, want: 401},
		} {
			conf := &tls.Config{RootCAs: cp.authority.Pool(), MinVersion: tls.VersionTLS12}
			if test.cert != nil {
				conf.Certificates = []tls.Certificate{*test.cert}
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://localhost:%d/meshes/default/dataplanes/none/xds", cp.MeshTLSPort()), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if test.authorization != nil {
				r.Header["Authorization"] = test.authorization
			}
			a, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
			client.CloseIdleConnections()
			want := test.want
			if local {
				want = http.StatusNotFound // an administrator, whatever is shown
			}
			if a.StatusCode != want {
				t.Errorf("%s, on a machine of administrators: %t: %d, want %d", name, local, a.StatusCode, want)
			}
		}
	}
}

// TestLocalCallers: who is an administrator without any token.
func TestLocalCallers(t *testing.T) {
	nobody := func(context.Context, string) (model.Actor, error) { return model.User("bob"), nil }
	for name, test := range map[string]struct {
		local                 bool
		remote, header, value string
		want                  string
	}{
		"local":            {true, "127.0.0.1:1", "", "", model.UserAdministrator},
		"a token beside":   {true, "127.0.0.1:1", "Authorization", "Bearer x", model.UserAdministrator},
		"switched off":     {false, "127.0.0.1:1", "", "", model.UserAnonymous},
		"a token":          {false, "127.0.0.1:1", "Authorization", "Bearer x", "bob"},
		"remote":           {true, "192.0.2.1:1", "", "", model.UserAnonymous},
		"remote, token":    {true, "192.0.2.1:1", "Authorization", "Bearer x", "bob"},
		"another scheme":   {true, "192.0.2.1:1", "Authorization", "Basic x", model.UserAnonymous},
		"through a proxy":  {true, "127.0.0.1:1", "X-Real-IP", "192.0.2.1", model.UserAnonymous},
		"from a page":      {true, "127.0.0.1:1", "Origin", "https://console.example", model.UserAnonymous},
		"from another tab": {true, "127.0.0.1:1", "Sec-Fetch-Site", "cross-site", model.UserAnonymous},
	} {
		r := httptest.NewRequest("GET", "http://localhost:5681/meshes", nil)
		r.RemoteAddr = test.remote
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		if who, err := (callers{local: test.local, user: nobody}).Identify(r); err != nil || who.Name != test.want {
			t.Errorf("%s: %s %v", name, who, err)
		}
	}
}

// TestLocalCallerWithACertificate: on this machine the certificate does not matter, elsewhere it does.
func TestLocalCallerWithACertificate(t *testing.T) {
	for local, want := range map[bool]string{true: model.UserAdministrator, false: "bob"} {
		r := httptest.NewRequest("GET", "https://localhost:5682/meshes", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.TLS.VerifiedChains = [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}, NotAfter: time.Now().Add(time.Hour)}}}
		if who, err := (callers{local: local, authority: func(*x509.Certificate) bool { return true }}).Identify(r); err != nil || who.Name != want {
			t.Errorf("%t: %s %v", local, who, err)
		}
	}
}

// TestCertificateFromAPage: a browser adds a client certificate by itself, so it does not count
// for pages of other sites, also where these may call the API.
func TestCertificateFromAPage(t *testing.T) {
	for origin, want := range map[string]string{"": "bob", "https://mesh.example": "bob", "https://console.example": model.UserAnonymous} {
		r := httptest.NewRequest("GET", "https://mesh.example/meshes", nil)
		r.TLS.VerifiedChains = [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}, NotAfter: time.Now().Add(time.Hour)}}}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if who, err := (callers{authority: func(*x509.Certificate) bool { return true }}).Identify(r); err != nil || who.Name != want {
			t.Errorf("%q: %s %v", origin, who, err)
		}
	}
}

// TestRereadFiles: a file that changes counts at once, and a bad one changes nothing.
func TestRereadFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &reread[string]{files: []string{file}, log: slog.New(slog.DiscardHandler), parse: func(content [][]byte) (*string, error) {
		text := string(content[0])
		if strings.HasPrefix(text, "bad") {
			return nil, fmt.Errorf("is %s", text)
		}
		return &text, nil
	}}
	if _, err := r.get(); err == nil {
		t.Error("a missing file at first")
	}
	for _, step := range [][2]string{{"one", "one"}, {"another", "another"}, {"bad content", "another"}, {"the last", "the last"}} {
		put(step[0])
		if got, err := r.get(); err != nil || *got != step[1] {
			t.Errorf("after %q: %v %v", step[0], got, err)
		}
	}
}
