package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// clientOf makes a certificate and its key, both in PEM.
func clientOf(t *testing.T, curve elliptic.Curve) (chain, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = pemtext.Key(k); err != nil {
		t.Fatal(err)
	}
	return pemtext.Certificate(der), key
}

// kept holds secrets by name. One whose content is nil cannot be read now.
type kept map[string][]byte

var errDisk = errors.New("the disk is away")

// Get implements model.Getter.
func (k kept) Get(_ *model.Kind, _, name string) (*model.Resource, error) {
	data, ok := k[name]
	switch {
	case !ok:
		return nil, fault.New(fault.NotFound, "there is no %s", name)
	case data == nil:
		return nil, errDisk
	}
	return &model.Resource{Kind: Secrets, Name: name, Spec: &Secret{Data: data}}, nil
}

// TestResolvedProtection: what a service refers to becomes its protection, without a key, or the
// reason why there is none.
func TestResolvedProtection(t *testing.T) {
	roots, err := os.ReadFile("testdata/external-ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	only, _ := pemtext.Certificates(roots)
	chain, key := clientOf(t, elliptic.P256())
	_, other := clientOf(t, elliptic.P256())
	secrets := kept{
		"ca": append(append([]byte{}, key...), roots...), "none": []byte("x"), "away": nil, "both": append(append([]byte{}, key...), chain...), "other": other,
	}
	from := func(name string) *DataSource { return &DataSource{Secret: name} }
	names := map[string]bool{}
	for name, c := range map[string]struct {
		tls  *ExternalTLS
		want *ExternalProtection
	}{
		"off":           {&ExternalTLS{CACert: from("ca")}, nil},
		"system":        {&ExternalTLS{Enabled: true}, &ExternalProtection{Name: "mail.example", System: true}},
		"a secret's CA": {&ExternalTLS{Enabled: true, CACert: from("ca"), ServerName: said("mx.example")}, &ExternalProtection{Name: "mx.example", Roots: string(only)}},
		"no secret": {&ExternalTLS{Enabled: true, CACert: from("x")}, &ExternalProtection{
			Name: "mail.example", Wrong: `networking.tls.caCert: could not load data: Resource not found: type="Secret" name="x" mesh="demo"`,
		}},
		"no CA": {&ExternalTLS{Enabled: true, CACert: from("none")}, &ExternalProtection{Name: "mail.example", Wrong: "networking.tls.caCert: must hold certificates in PEM"}},
		"a client": {&ExternalTLS{Enabled: true, ClientCert: from("both"), ClientKey: from("both")}, &ExternalProtection{
			Name: "mail.example", System: true,
		}},
		"a client in two sources": {&ExternalTLS{Enabled: true, ClientCert: from("both"), ClientKey: &DataSource{Inline: key}}, &ExternalProtection{
			Name: "mail.example", System: true,
		}},
		"no pair": {&ExternalTLS{Enabled: true, ClientCert: from("both"), ClientKey: from("other")}, &ExternalProtection{
			Name: "mail.example", System: true, Wrong: "networking.tls.clientCert: certificate and key do not belong together",
		}},
	} {
		s := &ExternalService{Networking: &ExternalNetworking{Address: "mail.example.:443", TLS: c.tls}, Tags: Tags{TagService: "mail"}}
		got, err := s.Resolved(secrets, "demo", "mail")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := got.(*External).Protection()
		if p != nil && p.Client != "" {
			names[p.Client], p.Client = true, ""
		}
		if diff := cmp.Diff(c.want, p); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(names) != 1 {
		t.Errorf("one content in other sources has the names %v", names)
	}
	away := &ExternalService{Networking: &ExternalNetworking{Address: "mail.example:443", TLS: &ExternalTLS{Enabled: true, CACert: from("away")}}}
	if _, err := away.Resolved(secrets, "demo", "mail"); !errors.Is(err, errDisk) {
		t.Errorf("a secret that cannot be read now: %v", err)
	}
}

// TestClientKeysAreNormal: proxies get certificates alone and one key, whatever stands beside them.
func TestClientKeysAreNormal(t *testing.T) {
	chain, key := clientOf(t, elliptic.P256())
	both := append(append([]byte("text\n"), key...), chain...)
	p, err := clientPair(both, both)
	if err != nil {
		t.Fatal(err)
	}
	if string(p.Chain) != string(chain) || strings.Contains(string(p.Chain), "PRIVATE") || string(p.Key) != string(key) {
		t.Errorf("chain and key are\n%s%d bytes", p.Chain, len(p.Key))
	}
}

// TestExternalClientNames: a secret has another name at another place, with other demands on the
// server, and with other content.
func TestExternalClientNames(t *testing.T) {
	first, firstKey := clientOf(t, elliptic.P256())
	second, secondKey := clientOf(t, elliptic.P256())
	of := func(service, address string, cert, key []byte, change func(*ExternalTLS)) *Presented {
		tls := &ExternalTLS{Enabled: true, ServerName: said("s.example"), ClientCert: &DataSource{Inline: cert}, ClientKey: &DataSource{Inline: key}}
		change(tls)
		s := &ExternalService{Networking: &ExternalNetworking{Address: address, TLS: tls}, Tags: Tags{TagService: "mail"}}
		p, err := s.Presented(kept{}, "demo", service)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	same := func(*ExternalTLS) {}
	one := of("a.b", "x.example:443", first, firstKey, same)
	if string(one.Key) != string(firstKey) {
		t.Error("what is presented has another key")
	}
	for what, p := range map[string]*Presented{
		"another service": of("a", "x.example:443", first, firstKey, same), "another host": of("a.b", "y.example:443", first, firstKey, same),
		"other content": of("a.b", "x.example:443", second, secondKey, same), "another port": of("a.b", "x.example:444", first, firstKey, same), "any name": of("a.b", "x.example:443", first, firstKey, func(t *ExternalTLS) { t.SkipHostnameVerification = true }),
	} {
		if p.Name == one.Name {
			t.Errorf("%s has the same name %s", what, p.Name)
		}
	}
	if p := of("a.b", "x.example:443", first, firstKey, func(t *ExternalTLS) { t.Enabled = false }); p != nil {
		t.Errorf("without TLS %s is presented", p.Name)
	}
	if name, ok := ParseExternalClient(one.Name); name != "a.b" || !ok {
		t.Errorf("%s is of %q, %v", one.Name, name, ok)
	}
	for _, no := range []string{"", "identity_cert:secret:demo", "external_client:secret:", "external_client:secret:x", "external_client:secret::x"} {
		if name, ok := ParseExternalClient(no); ok {
			t.Errorf("%q is of %q", no, name)
		}
	}
}
