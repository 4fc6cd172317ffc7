package meshca

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

func TestGenerateRoot(t *testing.T) {
	bits := uint32(2048)
	for _, test := range []struct {
		name string
		conf *mesh.AuthorityConf
		life time.Duration
		rsa  bool
	}{
		{"default", nil, identity.AuthorityLife, false},
		{"days", &mesh.AuthorityConf{CACert: &mesh.CACert{Expiration: "3d"}}, 72 * time.Hour, false},
		{"rsa", &mesh.AuthorityConf{CACert: &mesh.CACert{RSABits: &bits}}, identity.AuthorityLife, true},
	} {
		cert, key, err := GenerateRoot("demo", "ca-1", test.conf)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		c := identitytest.Certificate(t, cert)
		_, isRSA := c.PublicKey.(*rsa.PublicKey)
		if !c.IsCA || c.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || isRSA != test.rsa ||
			c.Subject.CommonName != "demo" || len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://demo" {
			t.Errorf("%s: %v %v usage %b rsa %t", test.name, c.Subject, c.URIs, c.KeyUsage, isRSA)
		}
		if got := c.NotAfter.Sub(c.NotBefore); got != test.life+identity.Backdate {
			t.Errorf("%s: good for %v", test.name, got)
		}
	}
}

func TestGenerateRootRefuses(t *testing.T) {
	small, large := uint32(1024), uint32(8192)
	for _, ca := range []*mesh.CACert{
		{RSABits: &small}, {RSABits: &large}, {Expiration: "0s"}, {Expiration: "x"}, {Expiration: "1h1m"}, {Expiration: "999999999y"},
	} {
		if _, _, err := GenerateRoot("demo", "ca-1", &mesh.AuthorityConf{CACert: ca}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", ca, err)
		}
	}
}

func TestLifetime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5ms": 5 * time.Millisecond, "5s": 5 * time.Second, "5m": 5 * time.Minute, "5h": 5 * time.Hour,
		"5d": 120 * time.Hour, "2w": 336 * time.Hour, "1y": 8760 * time.Hour,
	} {
		if got, err := mesh.Lifetime(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
