package gateway

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
)

func TestUpstreamViolations(t *testing.T) {
	const conditional = "failed conditional validation given value of field "
	for body, want := range map[string]map[string]string{
		`{}`:                                     {"name": model.TextRequired},
		`{"name":"10.0.0.1"}`:                    {"name": "Invalid name ('10.0.0.1'); no ip addresses allowed"},
		`{"name":"a:80"}`:                        {"name": "Invalid name ('a:80'); no port allowed"},
		`{"name":"a b"}`:                         {"name": "Invalid name ('a b'); must be a valid hostname"},
		`{"name":"a","algorithm":"latency"}`:     {"algorithm": "not supported: latency: proxies do not choose targets by the time they take; use least-connections"},
		`{"name":"a","algorithm":"best"}`:        {"algorithm": "expected one of: consistent-hashing, least-connections, round-robin, latency"},
		`{"name":"a","slots":9}`:                 {"slots": "value should be between 10 and 65536"},
		`{"name":"a","use_srv_name":true}`:       {"use_srv_name": "not supported: SRV records are not resolved, so that no target has a name of one"},
		`{"name":"a","hash_on":"uri_capture"}`:   {"hash_on": "not supported: uri_capture: the path has been rewritten when a target is chosen"},
		`{"name":"a","hash_on_uri_capture":"x"}`: {"hash_on_uri_capture": model.TextNull},
		`{"name":"a","hash_on":"header"}`:        {"hash_on_header": model.TextRequired, model.EntityPath: conditional + "'hash_on'"},
		`{"name":"a","hash_on":"cookie"}`:        {"hash_on_cookie": model.TextRequired, model.EntityPath: conditional + "'hash_on'"},
		`{"name":"a","hash_fallback":"ip"}`:      {"hash_fallback": "expected one of: none", model.EntityPath: conditional + "'hash_on'"},
		`{"name":"a","hash_on":"ip","hash_fallback":"ip"}`: {
			model.EntityPath: "values of these fields must be distinct: 'hash_on', 'hash_fallback'",
		},
		`{"name":"a","hash_on":"header","hash_on_header":"X-A","hash_fallback":"header","hash_fallback_header":"x-a"}`: {
			model.EntityPath: "values of these fields must be distinct: 'hash_on_header', 'hash_fallback_header'",
		},
		`{"name":"a","hash_on":"header","hash_on_header":"X-A","hash_fallback":"header","hash_fallback_header":"x-b"}`: {},
		`{"name":"a","hash_on":"consumer","hash_fallback":"query_arg","hash_fallback_query_arg":"q"}`:                  {},
		`{"name":"a","host_header":"a.test:8443"}`:                                                                     {},
		`{"name":"a","host_header":"a.test:x"}`:                                                                        {"host_header": `invalid hostname: "a.test:x"`},
		`{"name":"a","healthchecks":{"active":{"concurrency":5,"timeout":0,"http_path":"x","type":"udp"}}}`: {
			"healthchecks.active.timeout":   "value must be greater than 0",
			"healthchecks.active.http_path": "should start with: /", "healthchecks.active.type": "expected one of: tcp, http, https, grpc, grpcs",
		},
		`{"name":"a","healthchecks":{"active":{"healthy":{"interval":0.01}},"passive":{"healthy":{"http_statuses":[200]},"unhealthy":{"http_failures":256}}}}`: {
			"healthchecks.active.healthy.interval":         "value should be 0 or at least 0.1",
			"healthchecks.passive.unhealthy.http_failures": "value should be between 0 and 255",
		},
		`{"name":"a","algorithm":"consistent-hashing","healthchecks":{"threshold":1}}`: {
			"healthchecks.threshold": "not supported with the algorithm consistent-hashing",
		},
	} {
		_, err := Upstreams.Schema.Process(model.OpCreate, decode(t, body), nil)
		if diff := cmp.Diff(want, violations(t, err)); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", body, diff)
		}
	}
}

func TestUpstreamDefaults(t *testing.T) {
	w, err := Upstreams.Schema.Process(model.OpCreate, decode(t, `{"name":"a","healthchecks":{"active":{"healthy":{"interval":1.5}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Upstreams.Fill(w.New)
	if err != nil {
		t.Fatal(err)
	}
	want := &Upstream{
		Name: "a", Algorithm: RoundRobin, HashOn: HashNone, HashFallback: HashNone, HashOnCookiePath: "/", Slots: 10000,
		Healthchecks: Healthchecks{
			Active: ActiveCheck{
				Type: CheckHTTP, Timeout: 1, Concurrency: 10, HTTPPath: "/", HTTPSVerifyCertificate: true,
				Healthy:   ProbedHealthy{Interval: 1.5, HTTPStatuses: []int{200, 302}},
				Unhealthy: ProbedUnhealthy{HTTPStatuses: []int{429, 404, 500, 501, 502, 503, 504, 505}},
			},
			Passive: PassiveCheck{
				Type: CheckHTTP,
				Healthy: UsedHealthy{HTTPStatuses: []int{
					200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 306, 307, 308,
				}},
				Unhealthy: UsedUnhealthy{HTTPStatuses: []int{429, 500, 503}},
			},
		},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestTargetAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1:8000", "10.0.0.1:80": "10.0.0.1:80", "Host.test": "Host.test:8000", "h:1": "h:1",
		"::1": "[0000:0000:0000:0000:0000:0000:0000:0001]:8000", "[::1]": "[0000:0000:0000:0000:0000:0000:0000:0001]:8000",
		"[2001:DB8::1]:80": "[2001:0db8:0000:0000:0000:0000:0000:0001]:80",
		"h:0":              "", "h:65536": "", "h:x": "", "a b": "", ":80": "", "[::1]:": "", "fe80::1%eth0": "", "-h": "", "h:80:80": "", "[h": "",
	} {
		got, ok := targetAddress(text)
		if ok != (want != "") || ok && got.shown != want {
			t.Errorf("%q: %q %t, want %q", text, got.shown, ok, want)
		}
	}
}

// TestSpellingsOfOneTarget: rows of an older version hold folded names and short addresses.
// They are found under the same index value, and shown like rows of this version.
func TestSpellingsOfOneTarget(t *testing.T) {
	for _, tc := range []struct{ stored, shown, folded string }{
		{"[::1]:80", "[0000:0000:0000:0000:0000:0000:0000:0001]:80", "[::1]:80"},
		{"[0000:0000:0000:0000:0000:0000:0000:0001]:80", "[0000:0000:0000:0000:0000:0000:0000:0001]:80", "[::1]:80"},
		{"A.Example:80", "A.Example:80", "a.example:80"},
		{"a.example:80", "a.example:80", "a.example:80"},
		{"10.0.0.1:80", "10.0.0.1:80", "10.0.0.1:80"},
	} {
		var target UpstreamTarget
		if err := json.Unmarshal([]byte(`{"upstream":"u","target":"`+tc.stored+`"}`), &target); err != nil {
			t.Fatal(err)
		}
		index, _ := Targets.Unique[0].Value(&target)
		host, _ := target.HostPort()
		want, _, err := net.SplitHostPort(tc.folded)
		if err != nil || target.Target != tc.shown || index != "u "+tc.folded || host != want {
			t.Errorf("%s: shown %s, index %q, host %s", tc.stored, target.Target, index, host)
		}
	}
	for name, want := range map[string]string{"A.Example": "a.example", "a.example.": "a.example", "*.B.example": "*.b.example"} {
		if index, _ := SNIs.Unique[0].Value(&SNI{Name: name}); index != want {
			t.Errorf("%s: index %q", name, index)
		}
	}
}

// FuzzTargetAddress: an accepted target can be dialled, and its spelling is stable.
func FuzzTargetAddress(f *testing.F) {
	for _, text := range []string{"10.0.0.1", "[::1]:80", "a.test:8000", "a:", "[", "::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := targetAddress(text)
		if !ok {
			return
		}
		host, port, err := net.SplitHostPort(got.folded)
		n, number := strconv.Atoi(port)
		if err != nil || number != nil || n < 1 || n > 65535 || host == "" {
			t.Errorf("%q: %q", text, got.folded)
		}
		for _, spelling := range []string{got.shown, got.folded, strings.ToUpper(got.shown)} {
			if again, ok := targetAddress(spelling); !ok || again.folded != got.folded {
				t.Errorf("%q: %q and then %q", text, got.folded, again.folded)
			}
		}
		if again, _ := targetAddress(got.shown); again != got {
			t.Errorf("%q: %q and then %q", text, got.shown, again.shown)
		}
	})
}

func TestServicesOfOtherProtocols(t *testing.T) {
	const ca = "AAAAAAAA-0000-4000-8000-000000000000"
	for body, want := range map[string]map[string]string{
		`{"host":"h","protocol":"grpc","path":"/x"}`:                               {"path": model.TextNull},
		`{"url":"grpcs://h:9000"}`:                                                 {},
		`{"url":"wss://h/chat"}`:                                                   {},
		`{"host":"h","protocol":"udp"}`:                                            {"protocol": "not supported: udp"},
		`{"host":"h","protocol":"ws","tls_verify":false}`:                          {"tls_verify": model.TextNull},
		`{"host":"h","protocol":"wss","tls_verify":false}`:                         {},
		`{"host":"h","ca_certificates":["` + ca + `"]}`:                            {"ca_certificates": model.TextNull},
		`{"host":"h","protocol":"grpcs","ca_certificates":["x"]}`:                  {"ca_certificates.1": model.TextUUID},
		`{"host":"h","client_certificate":{"id":"` + ca + `"}}`:                    {"client_certificate": model.TextNull},
		`{"host":"h","protocol":"https","client_certificate":{"id":"` + ca + `"}}`: {},
	} {
		_, err := Services.Schema.Process(model.OpCreate, decode(t, body), nil)
		if diff := cmp.Diff(want, violations(t, err)); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", body, diff)
		}
	}
	w, err := Services.Schema.Process(model.OpCreate, decode(t, `{"host":"h","protocol":"https","ca_certificates":["`+ca+`","`+strings.ToLower(ca)+`"]}`), nil)
	if err == nil {
		err = settleAuthorities(w, time.Time{})
	}
	if diff := cmp.Diff([]any{strings.ToLower(ca)}, w.New["ca_certificates"]); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func selfSigned(t *testing.T, key crypto.Signer, authority bool, until time.Time) (cert, private string) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: until, IsCA: authority, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func curveKey(t *testing.T, c elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCertificates(t *testing.T) {
	later := time.Now().Add(time.Hour)
	one, oneKey := selfSigned(t, curveKey(t, elliptic.P256()), false, later)
	two, twoKey := selfSigned(t, curveKey(t, elliptic.P384()), false, time.Unix(1, 0)) // expired certificates are presented as well
	small, smallKey := selfSigned(t, curveKey(t, elliptic.P224()), false, later)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, otherKey := selfSigned(t, rsaKey, false, later)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed, edText := selfSigned(t, edKey, false, later)
	for name, tc := range map[string]struct{ in, want map[string]string }{
		"a pair":           {map[string]string{"cert": one, "key": oneKey}, map[string]string{}},
		"two pairs":        {map[string]string{"cert": two, "key": twoKey, "cert_alt": other, "key_alt": otherKey}, map[string]string{}},
		"text around":      {map[string]string{"cert": "text\n" + one + "more\n", "key": oneKey}, map[string]string{}},
		"no pair":          {map[string]string{"cert": one, "key": twoKey}, map[string]string{model.EntityPath: "certificate does not match key"}},
		"half a pair":      {map[string]string{"cert": one, "key": oneKey, "cert_alt": other}, map[string]string{model.EntityPath: "all or none of these fields must be set: 'cert_alt', 'key_alt'"}},
		"no PEM":           {map[string]string{"cert": "x", "key": oneKey}, map[string]string{"cert": "invalid certificate: holds no PEM block"}},
		"no key":           {map[string]string{"cert": one, "key": "x"}, map[string]string{"key": "invalid key: no PEM block"}},
		"a key in a chain": {map[string]string{"cert": one + oneKey, "key": oneKey}, map[string]string{"cert": `invalid certificate: holds a block of type "PRIVATE KEY"`}},
		"a small curve":    {map[string]string{"cert": small, "key": smallKey}, map[string]string{"cert": "invalid certificate: the curve has 224 bits, at least 256 are needed"}},
		"Ed25519":          {map[string]string{"cert": ed, "key": edText}, map[string]string{"cert": "invalid certificate: only RSA and ECDSA keys are supported"}},
		"one type twice": {map[string]string{"cert": one, "key": oneKey, "cert_alt": two, "key_alt": twoKey}, map[string]string{
			model.EntityPath: "certificate and alternative certificate need to have different type (e.g. RSA and ECDSA), the provided certificates were both of the same type",
		}},
	} {
		in := map[string]any{}
		for k, v := range tc.in {
			in[k] = v
		}
		w, err := Certificates.Schema.Process(model.OpCreate, in, nil)
		got := violations(t, err)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", name, diff)
		}
		if err != nil {
			continue
		}
		spec, err := Certificates.Fill(w.New)
		if err != nil {
			t.Fatal(err)
		}
		for _, alternative := range []bool{false, tc.in["cert_alt"] != ""} {
			chain, key, err := spec.(*Certificate).Pair(alternative)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if _, err := tls.X509KeyPair(chain, key); err != nil || strings.Contains(string(chain), "text") {
				t.Errorf("%s: %v, %s", name, err, chain)
			}
		}
	}
	if _, _, err := (&Certificate{Cert: one, Key: twoKey}).Pair(false); err == nil || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("error %v", err)
	}
}

func TestAuthoritiesAndNames(t *testing.T) {
	ca, _ := selfSigned(t, curveKey(t, elliptic.P256()), true, time.Now().Add(time.Hour))
	leaf, _ := selfSigned(t, curveKey(t, elliptic.P256()), false, time.Now().Add(time.Hour))
	old, _ := selfSigned(t, curveKey(t, elliptic.P256()), true, time.Unix(1, 0))
	for cert, want := range map[string]string{
		ca: "", ca + ca: "please submit only one certificate at a time", old: `certificate expired, "Not After" time is in the past`,
		leaf: `certificate does not appear to be a CA because it is missing the "CA" basic constraint`,
	} {
		if got := authorityText(cert); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	w := &model.Write{New: map[string]any{"cert": ca}}
	if err := settleDigest(w, time.Time{}); err != nil || len(given(w.New, "cert_digest")) != 64 {
		t.Errorf("digest %v, %v", w.New["cert_digest"], err)
	}
	for name, want := range map[string]string{
		"a.test": "", "*.a.test": "", "a.*": "not supported: trailing wildcard", "*": "invalid wildcard: must be the leftmost label",
		"a.*.test": "invalid wildcard: must be the leftmost label", "10.0.0.1": "invalid hostname: 10.0.0.1", "*.*.test": "invalid wildcard: must be the leftmost label",
		"a b": "invalid hostname: a b",
	} {
		if got := sniText(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestProbesNameNoOwnCluster: proxies refuse a cluster whose probes have a header with the name of
// what only an agent may name, so the upstream is refused.
func TestProbesNameNoOwnCluster(t *testing.T) {
	for value, want := range map[string]string{
		"@authz": "must not be @authz, which proxies refuse", "@ads_cluster": "must not be @ads_cluster, which proxies refuse",
		"a @authz": "", "authz": "",
	} {
		_, err := Upstreams.Schema.Process(model.OpCreate, decode(t, `{"name":"a.example","healthchecks":{"active":{"headers":{"x-a":["`+value+`"]}}}}`), nil)
		expected := map[string]string{}
		if want != "" {
			expected["healthchecks.active.headers.x-a.1"] = want
		}
		if diff := cmp.Diff(expected, violations(t, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}
