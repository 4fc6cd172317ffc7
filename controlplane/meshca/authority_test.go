package meshca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// selfSigned makes a pair with the usage that a test wants.
func selfSigned(t *testing.T, ca bool, usage x509.KeyUsage) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true, KeyUsage: usage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pemtext.Certificate(der), pemtext.Encode("PRIVATE KEY", pkcs8)
}

func TestCheckAuthority(t *testing.T) {
	good, key := selfSigned(t, true, x509.KeyUsageCertSign)
	leaf, leafKey := selfSigned(t, false, x509.KeyUsageDigitalSignature)
	agreeing, agreeingKey := selfSigned(t, true, x509.KeyUsageCertSign|x509.KeyUsageKeyAgreement)
	noCA := "basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)"
	noSign := "key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)"
	for name, test := range map[string]struct {
		cert, key []byte
		want      []fault.Violation
	}{
		"good":  {good, key, nil},
		"chain": {append(bytes.Clone(good), agreeing...), key, []fault.Violation{{Path: "cert[1]", Message: "key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)"}}},
		"leaf":  {leaf, leafKey, []fault.Violation{{Path: "cert[0]", Message: noCA}, {Path: "cert[0]", Message: noSign}}},
		"key agreement": {agreeing, agreeingKey, []fault.Violation{{
			Path: "cert[0]", Message: "key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)",
		}}},
		"other key": {good, leafKey, []fault.Violation{{Path: "cert", Message: "not a valid TLS key pair: tls: private key does not match public key"}}},
		"empty":     {nil, nil, []fault.Violation{{Path: "cert", Message: "not a valid TLS key pair: tls: failed to find any PEM data in certificate input"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, mesh.CheckAuthority(test.cert, test.key)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	s := identitytest.Memory(t)
	cert, key := selfSigned(t, true, x509.KeyUsageCertSign)
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	// The key beside the certificate must not be included.
	if err := os.WriteFile(file, append(append([]byte("text\n"), key...), cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, mesh.MaxSource+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for name, data := range map[string][]byte{
			"cert": cert, "key": key, mesh.BuiltinCert("m", "b"): cert, mesh.BuiltinKey("m", "b"): key,
		} {
			if _, err := tx.Create(&model.Resource{Kind: mesh.Secrets, Scope: "m", Name: name, Spec: &mesh.Secret{Data: data}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pair := &identity.KeyPair{Certificate: cert, Key: key}
	text := string(key)
	provided := func(c, k *mesh.DataSource) mesh.Authority {
		return mesh.Authority{Name: "b", Type: mesh.AuthorityProvided, Conf: &mesh.AuthorityConf{Cert: c, Key: k}}
	}
	secret := &mesh.DataSource{Secret: "key"}
	for name, test := range map[string]struct {
		backend mesh.Authority
		enabled string
		want    *identity.KeyPair
		fails   string
	}{
		"off":     {backend: mesh.Authority{Name: "b", Type: mesh.AuthorityBuiltin}},
		"builtin": {mesh.Authority{Name: "b", Type: mesh.AuthorityBuiltin}, "b", pair, ""},
		"secrets": {provided(&mesh.DataSource{Secret: "cert"}, secret), "b", pair, ""},
		"file":    {provided(&mesh.DataSource{File: file}, secret), "b", pair, ""},
		"inline":  {provided(&mesh.DataSource{Inline: cert}, &mesh.DataSource{InlineString: &text}), "b", pair, ""},
		"no secret": {
			provided(&mesh.DataSource{Secret: "x"}, secret), "b", nil,
			`certificate of backend b: could not load data: Resource not found: type="Secret" name="x" mesh="m"`,
		},
		"nothing chosen": {
			provided(&mesh.DataSource{}, secret), "b", nil,
			"certificate of backend b: data source has to be chosen. Available sources: secret, file, inline",
		},
		"no key":         {provided(&mesh.DataSource{Secret: "cert"}, nil), "b", nil, "key of backend b: has to be defined"},
		"no conf":        {mesh.Authority{Name: "b", Type: mesh.AuthorityProvided}, "b", nil, "certificate of backend b: has to be defined"},
		"another type":   {mesh.Authority{Name: "b", Type: "x"}, "b", nil, "could not find installed plugin for this type"},
		"no file":        {provided(&mesh.DataSource{File: dir}, secret), "b", nil, "certificate of backend b: could not load data: " + dir + " is no file that can be read"},
		"too large file": {provided(&mesh.DataSource{File: large}, secret), "b", nil, fmt.Sprintf("certificate of backend b: could not load data: %s has more than %d bytes", large, mesh.MaxSource)},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: test.enabled, Backends: []mesh.Authority{test.backend}}}
			err := s.View(t.Context(), func(r store.Reader) error {
				got, err := wanted(r, "m", m)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
				return err
			})
			if got := fmt.Sprint(err); err != nil && got != test.fails || err == nil && test.fails != "" {
				t.Errorf("error %v, not %q", err, test.fails)
			}
		})
	}
}

// moment is a clock that stands still and has never been set.
type moment time.Time

func (m moment) EarliestFor(time.Duration) time.Time { return time.Time(m) }
func (m moment) LatestFor(time.Duration) time.Time   { return time.Time(m) }
func (m moment) add(d time.Duration) moment          { return moment(time.Time(m).Add(d)) }

// TestPreviousRootsAreBounded rotates without any confirmation of the signing.
func TestPreviousRootsAreBounded(t *testing.T) {
	cert := func(i int) *identity.KeyPair {
		return &identity.KeyPair{Certificate: pemtext.Certificate(fmt.Append(nil, i))}
	}
	now := moment(time.Now())
	a := (*Authority)(nil).aim("b", cert(0), time.Hour)
	for i := 1; i <= maxPrevious; i++ {
		a = a.aim("b", cert(i), time.Hour).sign(now, time.Hour)
	}
	if len(a.Previous) != maxPrevious {
		t.Fatalf("%d previous roots", len(a.Previous))
	}
	if b := a.aim("b", cert(99), time.Hour); b != a || b.heads(cert(99)) {
		t.Error("a rotation starts though too many roots are left")
	}
	if b := a.expire(now.add(time.Hour+identity.Backdate)).aim("b", cert(99), time.Hour); b.Phase != PhaseTrusting || len(b.Previous) != 0 {
		t.Error("a rotation does not start though the old roots have expired")
	}
}

// TestRetiredTwice: a root that is retired twice stays for the longer of the two times.
func TestRetiredTwice(t *testing.T) {
	x, y := &identity.KeyPair{Certificate: pemtext.Certificate([]byte("x"))}, &identity.KeyPair{Certificate: pemtext.Certificate([]byte("y"))}
	now := moment(time.Now())
	a := (*Authority)(nil).aim("b", x, 10*time.Hour)
	for _, p := range []*identity.KeyPair{y, x, y} {
		a = a.aim("b", p, time.Hour).sign(now, time.Hour)
	}
	want := []RetiredRoot{
		{y.Certificate, time.Time(now.add(time.Hour + identity.Backdate)), time.Hour},
		{x.Certificate, time.Time(now.add(10*time.Hour + identity.Backdate)), 10 * time.Hour},
	}
	if diff := cmp.Diff(want, a.Previous); diff != "" {
		t.Error(diff)
	}
}

// TestAimAgain asks for a pair that is already on its way. Nothing must be written.
func TestAimAgain(t *testing.T) {
	pair := func(text string) *identity.KeyPair {
		return &identity.KeyPair{Certificate: pemtext.Certificate([]byte(text)), Key: []byte(text)}
	}
	a := (*Authority)(nil).aim("b", pair("x"), time.Hour)
	if a.aim("b", pair("x"), time.Hour) != a {
		t.Error("the authority in force is put into force again")
	}
	a = a.aim("b", pair("y"), time.Hour)
	if a.aim("b", pair("y"), time.Hour) != a {
		t.Error("the pending authority is aimed at again")
	}
	if longer := a.aim("b", pair("y"), 2*time.Hour); longer.LeafLife != 2*time.Hour || longer.Phase != PhaseTrusting {
		t.Errorf("longer certificates are not noted: %v in phase %q", longer.LeafLife, longer.Phase)
	}
}
