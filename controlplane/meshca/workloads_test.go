package meshca

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// ca is an authority for tests.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newCA makes a root that is valid at epoch for some time, or an intermediate.
func newCA(t testing.TB, name string, life time.Duration, parent *ca) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return newCAWith(t, name, life, parent, key)
}

func newCAWith(t testing.TB, name string, life time.Duration, parent *ca, key crypto.Signer) *ca {
	t.Helper()
	return newCAFrom(t, name, identitytest.Epoch.Add(-time.Hour), life, parent, key)
}

// newCAFrom makes an authority that begins at another time. Its life counts from the epoch.
func newCAFrom(t testing.TB, name string, begin time.Time, life time.Duration, parent *ca, key crypto.Signer) *ca {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: begin, NotAfter: identitytest.Epoch.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c := &ca{template, key}
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *ca) pem() []byte { return pemtext.Certificate(c.cert.Raw) }

// pair returns the pair of the authority, with further certificates after its own.
func (c *ca) pair(t testing.TB, more ...*ca) identity.KeyPair {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	p := identity.KeyPair{Certificate: c.pem(), Key: pemtext.Encode("PRIVATE KEY", der)}
	for _, m := range more {
		p.Certificate = append(p.Certificate, m.pem()...)
	}
	return p
}

// workloadTest has a mesh m with backend ca and dataplane web. A counter counts the questions
// to its authority.
type workloadTest struct {
	*Workloads
	t     testing.TB
	store store.Store
	clock *identitytest.Clock
	asked atomic.Int64
	root  *ca
}

func newWorkloadTest(t testing.TB, s store.Store) *workloadTest {
	wt := &workloadTest{t: t, store: s, clock: identitytest.NewClock(), root: newCA(t, "m", 100*24*time.Hour, nil)}
	wt.Workloads = NewWorkloads(s, wt.clock.Now)
	signLeaf := wt.sign
	wt.sign = func(ws *workloadSigner, o *order) (*Leaf, error) {
		wt.asked.Add(1)
		return signLeaf(ws, o)
	}
	wt.expiration("")
	wt.sets("web", mesh.Tags{mesh.TagService: "web"})
	wt.authority(wt.root.pair(t))
	return wt
}

func (wt *workloadTest) expiration(text string) {
	wt.t.Helper()
	a := mesh.Authority{Name: "ca", Type: mesh.AuthorityBuiltin}
	if text != "" {
		a.DPCert = &mesh.DPCert{Rotation: &mesh.Rotation{Expiration: text}}
	}
	storetest.Place(wt.t, wt.store, mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{a}}})
}

// sets writes a dataplane with one inbound for each tag set.
func (wt *workloadTest) sets(name string, sets ...mesh.Tags) {
	wt.t.Helper()
	n := &mesh.Networking{}
	for _, tags := range sets {
		n.Inbound = append(n.Inbound, mesh.Inbound{Tags: tags})
	}
	storetest.Place(wt.t, wt.store, mesh.Dataplanes, "m", name, &mesh.Dataplane{Networking: n})
}

func (wt *workloadTest) authority(p identity.KeyPair) {
	wt.t.Helper()
	wt.place(&Authority{Backend: "ca", Current: p})
}

func (wt *workloadTest) place(a *Authority) {
	wt.t.Helper()
	storetest.Place(wt.t, wt.store, Authorities, "m", "m", a)
}

func (wt *workloadTest) issue() *Leaf {
	wt.t.Helper()
	leaf, err := wt.Issue(context.Background(), "m", "web")
	if err != nil {
		wt.t.Fatal(err)
	}
	return leaf
}

func (wt *workloadTest) fails(code fault.Code) error {
	wt.t.Helper()
	leaf, err := wt.Issue(context.Background(), "m", "web")
	if leaf != nil || !fault.Is(err, code) {
		wt.t.Fatalf("%v, want %q", err, code)
	}
	return err
}

// chain parses the certificates of an identity.
func chain(t testing.TB, leaf *Leaf) (certs []*x509.Certificate) {
	t.Helper()
	pair, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	}
	return certs
}

// verify checks an identity as a peer does that trusts one root.
func verify(leaf []*x509.Certificate, root *ca, at time.Time, usage x509.ExtKeyUsage) error {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}
	o.Roots.AddCert(root.cert)
	for _, c := range leaf[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := leaf[0].Verify(o)
	return err
}

func TestWorkloadNames(t *testing.T) {
	for name, test := range map[string]struct {
		n    *mesh.Networking
		want []string
	}{
		"two services": {
			&mesh.Networking{Inbound: []mesh.Inbound{
				{Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http", "version": "1"}},
				{Tags: mesh.Tags{mesh.TagService: "admin", "version": "1"}},
			}},
			[]string{
				"spiffe://m/admin", "mesh://mesh.io/protocol/http", "mesh://mesh.io/service/admin", "mesh://mesh.io/service/web", "mesh://version/1",
				"spiffe://m/admin", "spiffe://m/web",
			},
		},
		"gateway": {
			&mesh.Networking{Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge", "team": "a.b_c-D:1"}}},
			[]string{"spiffe://m/edge", "mesh://mesh.io/service/edge", "mesh://team/a.b_c-D:1", "spiffe://m/edge"},
		},
		"gateway with an inbound": {
			&mesh.Networking{Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}, Inbound: []mesh.Inbound{{Tags: mesh.Tags{mesh.TagService: "web"}}}},
			[]string{"spiffe://m/edge", "mesh://mesh.io/service/edge", "mesh://mesh.io/service/web", "spiffe://m/edge", "spiffe://m/web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			storetest.Place(t, wt.store, mesh.Dataplanes, "m", "web", &mesh.Dataplane{Networking: test.n})
			certs := chain(t, wt.issue())
			var got []string
			for _, u := range certs[0].URIs {
				got = append(got, u.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				if err := verify(certs, wt.root, identitytest.Epoch, usage); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestWorkloadCertificate(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	leaf := wt.issue()
	c := chain(t, leaf)[0]
	if _, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || c.IsCA || !c.BasicConstraintsValid || c.KeyUsage != x509.KeyUsageDigitalSignature || len(c.ExtKeyUsage) != 2 {
		t.Errorf("key %T, authority %v %v, usage %v %v", c.PublicKey, c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage)
	}
	if len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) != 0 || c.Subject.String() != "" {
		t.Errorf("other names: %v %v %v %q", c.DNSNames, c.IPAddresses, c.EmailAddresses, c.Subject)
	}
	if block, rest := pem.Decode(leaf.Key); block == nil || block.Type != "PRIVATE KEY" || len(rest) != 0 {
		t.Error("the key is not one PEM block of PKCS #8")
	}
	if leaf.Backend != "ca" || leaf.Issuer != identity.Issuer(wt.root.pem()) || !leaf.Issued.Equal(identitytest.Epoch) || !leaf.NotAfter.Equal(c.NotAfter) {
		t.Errorf("backend %q, issuer %q, %s to %s", leaf.Backend, leaf.Issuer, leaf.Issued, leaf.NotAfter)
	}
	wt.sets("web-2", mesh.Tags{mesh.TagService: "web"})
	other, err := wt.Issue(t.Context(), "m", "web-2")
	if err != nil {
		t.Fatal(err)
	}
	if chain(t, other)[0].SerialNumber.Cmp(c.SerialNumber) == 0 || string(other.Key) == string(leaf.Key) {
		t.Error("two dataplanes have the same serial number or key")
	}
}

func TestWorkloadLifetime(t *testing.T) {
	for name, test := range map[string]struct {
		expiration string
		ca, want   time.Duration
	}{
		"default":           {"", 48 * time.Hour, 24 * time.Hour},
		"minutes":           {"90m", 48 * time.Hour, 90 * time.Minute},
		"days":              {"30d", 90 * 24 * time.Hour, 30 * 24 * time.Hour},
		"not beyond the CA": {"30d", 48 * time.Hour, 48 * time.Hour},
		"the CA nearly out": {"", time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			wt.expiration(test.expiration)
			root := newCA(t, "m", test.ca, nil)
			wt.authority(root.pair(t))
			leaf := wt.issue()
			certs := chain(t, leaf)
			if got := certs[0]; !got.NotBefore.Equal(identitytest.Epoch.Add(-identity.Backdate)) || !got.NotAfter.Equal(identitytest.Epoch.Add(test.want)) || !leaf.NotAfter.Equal(got.NotAfter) {
				t.Errorf("%s to %s, %s", got.NotBefore, got.NotAfter, leaf.NotAfter)
			}
			if err := verify(certs, root, identitytest.Epoch.Add(test.want), x509.ExtKeyUsageServerAuth); err != nil {
				t.Error(err)
			}
			if err := verify(certs, root, identitytest.Epoch.Add(test.want+time.Second), x509.ExtKeyUsageServerAuth); err == nil {
				t.Error("it is good for too long")
			}
		})
	}
}

func TestWorkloadTagsRefused(t *testing.T) {
	for _, tags := range []mesh.Tags{
		{"a": "x\x00y"}, {"a": "x y"}, {"a": "x\n"}, {"a": "x\x7f"}, {"a": "é"}, {"a\x00": "x"}, {"a b": "x"}, {"a": "x/y"}, {"a": ""}, {"": "x"},
		{"a": "x#y"}, {"a": "x?y"}, {"a": "x?"}, {"a": "%zz"}, {"u@a": "x"}, {"a:b": "x"}, {"a..b": "x"}, {".a": "x"}, {"a.": "x"}, {"[a": "x"},
		{mesh.TagService: "web\x00.evil"}, {},
	} {
		wt := newWorkloadTest(t, identitytest.Memory(t))
		wt.sets("web", tags)
		wt.fails(fault.Invalid)
		if wt.asked.Load() != 0 {
			t.Errorf("%q: the authority was asked", tags)
		}
	}
}

// TestWorkloadNamesAreRead: every accepted name is read from the certificate unchanged.
func TestWorkloadNamesAreRead(t *testing.T) {
	root := newCA(t, "m", 48*time.Hour, nil)
	parsed, err := parseAuthority(new(root.pair(t)))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorkloads(nil, identitytest.NewClock().Now)
	word := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9.\-_:/]{1,12}`), rapid.StringN(1, 6, 12))
	rapid.Check(t, func(rt *rapid.T) {
		tags := mesh.Tags(rapid.MapOfN(word, word, 1, 4).Draw(rt, "tags"))
		names, err := identities("m", &mesh.Dataplane{Networking: &mesh.Networking{Inbound: []mesh.Inbound{{Tags: tags}}}})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				rt.Fatal(err)
			}
			return
		}
		leaf, err := w.signLeaf(&workloadSigner{parsed: parsed}, &order{authority: &Authority{}, names: names, life: time.Hour})
		if err != nil {
			rt.Fatal(err)
		}
		block, _ := pem.Decode(leaf.Certificate)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			rt.Fatalf("%q: %v", tags, err)
		}
		var got []string
		for _, u := range c.URIs {
			got = append(got, u.String())
		}
		for k, v := range tags {
			if !slices.Contains(got, mesh.TagURI(k, v)) {
				rt.Fatalf("%q has no name for %q", got, k)
			}
		}
	})
}

func TestWorkloadReuse(t *testing.T) {
	for name, test := range map[string]struct {
		change func(wt *workloadTest)
		same   bool
	}{
		"nothing":                   {func(*workloadTest) {}, true},
		"before 65 %":               {func(wt *workloadTest) { wt.clock.Advance(24*time.Hour*65/100 - time.Second) }, true},
		"65 %":                      {func(wt *workloadTest) { wt.clock.Advance(24 * time.Hour * 65 / 100) }, false},
		"the same tags again":       {func(wt *workloadTest) { wt.sets("web", mesh.Tags{mesh.TagService: "web"}) }, true},
		"a tag more":                {func(wt *workloadTest) { wt.sets("web", mesh.Tags{mesh.TagService: "web", "a": "b"}) }, false},
		"another issuer":            {func(wt *workloadTest) { wt.authority(newCA(wt.t, "m", 48*time.Hour, nil).pair(wt.t)) }, false},
		"another life":              {func(wt *workloadTest) { wt.expiration("1h") }, false},
		"the same life by its text": {func(wt *workloadTest) { wt.expiration("1d") }, true},
		"another name of the backend": {func(wt *workloadTest) {
			storetest.Place(wt.t, wt.store, Authorities, "m", "m", &Authority{Backend: "new", Current: wt.root.pair(wt.t)})
		}, false},
		"forgotten":       {func(wt *workloadTest) { wt.Forget("m", "web") }, false},
		"other forgotten": {func(wt *workloadTest) { wt.Forget("m", "web-2"); wt.Forget("other", "web") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			leaf := wt.issue()
			test.change(wt)
			again := wt.issue()
			if (leaf == again) != test.same {
				t.Errorf("the same: %v", leaf == again)
			}
			if again.Backend == "new" != (name == "another name of the backend") {
				t.Errorf("backend %q", again.Backend)
			}
		})
	}
}

// TestWorkloadReuseOutlivesAuthority: a proxy that comes back is served even while the
// authority fails.
func TestWorkloadReuseOutlivesAuthority(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	leaf := wt.issue()
	wt.sign = func(*workloadSigner, *order) (*Leaf, error) { return nil, errors.New("down") }
	wt.sets("web-2", mesh.Tags{mesh.TagService: "web"})
	if _, err := wt.Issue(t.Context(), "m", "web-2"); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if wt.issue() != leaf {
		t.Error("the identity was not given out again")
	}
}

func TestWorkloadRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(wt *workloadTest)
		want   fault.Code
	}{
		"no dataplane": {func(wt *workloadTest) { storetest.Place(wt.t, wt.store, mesh.Dataplanes, "m", "web", nil) }, fault.NotFound},
		"no mesh":      {func(wt *workloadTest) { storetest.Place(wt.t, wt.store, mesh.Meshes, "", "m", nil) }, fault.NotFound},
		"mTLS off":     {func(wt *workloadTest) { storetest.Place(wt.t, wt.store, mesh.Meshes, "", "m", &mesh.Mesh{}) }, fault.Unavailable},
		"mTLS without a backend in force": {func(wt *workloadTest) {
			storetest.Place(wt.t, wt.store, mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{Backends: []mesh.Authority{{Name: "ca"}}}})
		}, fault.Unavailable},
		"no authority yet": {func(wt *workloadTest) { storetest.Place(wt.t, wt.store, Authorities, "m", "m", nil) }, fault.Unavailable},
		"life of nothing":  {func(wt *workloadTest) { wt.expiration("soon") }, fault.Invalid},
		"no networking": {func(wt *workloadTest) {
			storetest.Place(wt.t, wt.store, mesh.Dataplanes, "m", "web", &mesh.Dataplane{})
		}, fault.Invalid},
		"store closed": {func(wt *workloadTest) { _ = wt.store.Close() }, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			test.change(wt)
			wt.fails(test.want)
			if wt.asked.Load() != 0 {
				t.Error("the authority was asked")
			}
		})
	}
}

func TestWorkloadsConcurrently(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	const proxies = 8
	for i := range proxies {
		wt.sets(fmt.Sprint("web-", i), mesh.Tags{mesh.TagService: "web"})
	}
	got := make([][]*Leaf, proxies)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range proxies * 8 {
		wg.Go(func() {
			leaf, err := wt.Issue(t.Context(), "m", fmt.Sprint("web-", i%proxies))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got[i%proxies] = append(got[i%proxies], leaf)
		})
	}
	wg.Wait()
	for i, leaves := range got {
		if len(slices.Compact(leaves)) != 1 {
			t.Errorf("web-%d got several identities", i)
		}
	}
}

// TestWorkloadsAreBounded: neither old identities nor too many authorities are kept.
func TestWorkloadsAreBounded(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	leaf := wt.issue()
	for i := range 10 * minSweep {
		wt.keep(model.Key{Name: fmt.Sprint(i)}, &issuedLeaf{Leaf: &Leaf{Issued: wt.clock.Now(), NotAfter: wt.clock.Now().Add(time.Minute)}})
		wt.clock.Advance(time.Second)
	}
	if len(wt.leaves) > minSweep {
		t.Errorf("%d identities are kept", len(wt.leaves))
	}
	if wt.issue() != leaf {
		t.Error("a young identity was dropped")
	}
	for i := range 2*maxSigners + 10 {
		admitted, err := wt.admit(t.Context(), fmt.Sprint(i), &identity.KeyPair{})
		if err != nil {
			t.Fatal(err)
		}
		wt.done(admitted, nil)
	}
	if len(wt.signers) > maxSigners {
		t.Errorf("%d authorities are kept", len(wt.signers))
	}
}

func BenchmarkWorkloadIssue(b *testing.B) {
	for _, name := range []string{"signed", "again"} {
		b.Run(name, func(b *testing.B) {
			wt := newWorkloadTest(b, identitytest.Memory(b))
			wt.sets("web", mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http", "version": "1"})
			b.ReportAllocs()
			for b.Loop() {
				if name == "signed" {
					wt.Forget("m", "web")
				}
				wt.issue()
			}
		})
	}
}
