package httpkit

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestCertifiedUser: names and groups in certificates, and what they must not claim.
func TestCertifiedUser(t *testing.T) {
	for name, test := range map[string]struct {
		cert   x509.Certificate
		want   string
		groups []string
	}{
		"common name":    {x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{"a"}}, DNSNames: []string{"x"}}, "bob", []string{"a", model.GroupAuthenticated}},
		"DNS name":       {x509.Certificate{DNSNames: []string{"ci.example"}}, "ci.example", []string{model.GroupAuthenticated}},
		"mail address":   {x509.Certificate{EmailAddresses: []string{"b@x.example"}}, "b@x.example", []string{model.GroupAuthenticated}},
		"URI":            {x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/ci"}}}, "spiffe://x/ci", []string{model.GroupAuthenticated}},
		"nameless":       {x509.Certificate{}, "", nil},
		"administrator":  {x509.Certificate{Subject: pkix.Name{CommonName: model.UserAdministrator}}, "", nil},
		"token's holder": {x509.Certificate{Subject: pkix.Name{CommonName: "token:ci"}}, "", nil},
		"a program":      {x509.Certificate{URIs: []*url.URL{{Scheme: "system", Opaque: "ci"}}}, "", nil},
		"groups of both": {x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{"system:masters", "token:a"}}}, "bob", []string{"system:masters", "token:a", model.GroupAuthenticated}},
		"NUL":            {x509.Certificate{Subject: pkix.Name{CommonName: "bob\x00.example"}}, "", nil},
		"NUL, DNS name":  {x509.Certificate{DNSNames: []string{"bob\x00.example"}}, "", nil},
		"NUL, mail":      {x509.Certificate{EmailAddresses: []string{"bob\x00@x.example"}}, "", nil},
		"NUL in a path":  {x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/ci\x00/bob"}}}, "", nil},
		"NUL in a host":  {x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "x\x00y", Path: "/ci"}}}, "", nil},
		"NUL elsewhere":  {x509.Certificate{Subject: pkix.Name{CommonName: "bob"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/ci\x00"}}}, "", nil},
		"admins' group":  {x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{model.GroupAdministrator, "a"}}}, "bob", []string{"a", model.GroupAuthenticated}},
		"an empty group": {x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{""}}}, "bob", []string{model.GroupAuthenticated}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&test.cert}}}
		who, ok, err := CertifiedUser(r, time.Time{}, anyAuthority)
		if ok != (test.want != "") || who.Name != test.want || !slices.Equal(who.Groups, test.groups) || (test.want == "") != fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v %t %v", name, who, ok, err)
		}
		r.TLS.VerifiedChains, r.TLS.PeerCertificates = nil, []*x509.Certificate{&test.cert}
		if _, ok, err := CertifiedUser(r, time.Time{}, anyAuthority); ok || err != nil {
			t.Errorf("%s: a certificate that nobody has verified counts", name)
		}
	}
}

func anyAuthority(*x509.Certificate) bool { return true }

// TestCertificatesEnd: a certificate counts for as long as it is valid and its authority is
// trusted, and not for as long as its connection lasts.
func TestCertificatesEnd(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	leaf := &x509.Certificate{Raw: []byte("leaf"), Subject: pkix.Name{CommonName: "bob"}, NotBefore: begin, NotAfter: begin.Add(time.Hour)}
	root := &x509.Certificate{Raw: []byte("root"), NotBefore: begin, NotAfter: begin.Add(2 * time.Hour)}
	brief := &x509.Certificate{Raw: []byte("brief"), NotBefore: begin, NotAfter: begin.Add(time.Minute)}
	for name, test := range map[string]struct {
		after   time.Duration
		trusted []*x509.Certificate
		want    bool
	}{
		"valid":                   {time.Second, []*x509.Certificate{root, brief}, true},
		"before it begins":        {-time.Second, []*x509.Certificate{root, brief}, false},
		"ended":                   {time.Hour + time.Second, []*x509.Certificate{root, brief}, false},
		"its authority is gone":   {time.Second, nil, false},
		"by another authority":    {time.Second, []*x509.Certificate{brief}, true},
		"which has ended":         {2 * time.Minute, []*x509.Certificate{brief}, false},
		"while the first has not": {2 * time.Minute, []*x509.Certificate{root, brief}, true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf, root}, {leaf, brief}}}
		who, ok, err := CertifiedUser(r, begin.Add(test.after), func(c *x509.Certificate) bool { return slices.ContainsFunc(test.trusted, c.Equal) })
		if ok != test.want || ok && who.Name != "bob" || !ok && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v %t %v", name, who, ok, err)
		}
	}
}

// TestLocal: what must hold for a caller to be a user of this machine.
func TestLocal(t *testing.T) {
	for name, test := range map[string]struct {
		remote, host, header, value string
		want                        bool
	}{
		"local":         {"127.0.0.1:1", "localhost:5681", "", "", true},
		"IPv6":          {"[::1]:1", "[::1]:5681", "", "", true},
		"own page":      {"127.0.0.1:1", "localhost:5681", "Origin", "http://localhost:5681", true},
		"own fetch":     {"127.0.0.1:1", "localhost:5681", "Sec-Fetch-Site", "same-origin", true},
		"remote":        {"192.0.2.1:1", "localhost:5681", "", "", false},
		"no address":    {"", "localhost:5681", "", "", false},
		"foreign host":  {"127.0.0.1:1", "evil.example", "", "", false},
		"Forwarded":     {"127.0.0.1:1", "localhost", "Forwarded", "for=192.0.2.1", false},
		"X-Forwarded":   {"127.0.0.1:1", "localhost", "X-Forwarded-For", "192.0.2.1", false},
		"X-Real-IP":     {"127.0.0.1:1", "localhost", "X-Real-IP", "127.0.0.1", false},
		"cross site":    {"127.0.0.1:1", "localhost", "Sec-Fetch-Site", "cross-site", false},
		"same site":     {"127.0.0.1:1", "localhost", "Sec-Fetch-Site", "same-site", false},
		"other origin":  {"127.0.0.1:1", "localhost", "Origin", "https://evil.example", false},
		"opaque origin": {"127.0.0.1:1", "localhost", "Origin", "null", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = test.remote, test.host
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		if got := Local(r); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTokenOf: only one header, with the exact scheme.
func TestTokenOf(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   string
		ok     bool
	}{
		{[]string{"Bearer a"}, "a", true},
		{[]string{"Bearer "}, "", true},
		{[]string{"bearer a"}, "bearer a", false},
		{[]string{"Basic a"}, "Basic a", false},
		{[]string{"Bearer a", "Bearer b"}, "", false},
		{nil, "", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.values
		if got, ok := TokenOf(r); got != test.want || ok != test.ok {
			t.Errorf("%q: %q %t", test.values, got, ok)
		}
	}
}

// TestCORS: pages of listed origins may call the API, and no others.
func TestCORS(t *testing.T) {
	h := BrowserGuard{Origins: []string{"https://console.example"}, Tokens: true}.Wrap(NewRouter(nil, RefuseMessage))
	for origin, want := range map[string]int{"https://console.example": 204, "https://evilconsole.example": 403, "https://console.example.evil": 403, "": 404} {
		r := httptest.NewRequest("OPTIONS", "http://127.0.0.1:5681/meshes", nil)
		r.Header.Set("Access-Control-Request-Method", "GET")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != want || (got == origin && origin != "") != (want == 204) {
			t.Errorf("%q: %d %v", origin, w.Code, w.Header())
		}
	}
}

// TestOnlyBearersPassTheGuard: a page whose name was rebound to this machine proves nothing by any
// other Authorization, which its own script can set.
func TestOnlyBearersPassTheGuard(t *testing.T) {
	h := BrowserGuard{Tokens: true}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for sent, want := range map[string]int{"": 403, "x": 403, "Basic eDp5": 403, "bearer a": 403, "Bearer a": 200} {
		r := httptest.NewRequest("PUT", "http://evil.example:5681/meshes/default", nil)
		if sent != "" {
			r.Header.Set("Authorization", sent)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", sent, w.Code, want)
		}
	}
}
