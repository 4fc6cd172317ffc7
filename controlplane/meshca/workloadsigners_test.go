package meshca

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// TestWorkloadChain tests a provided authority below others.
func TestWorkloadChain(t *testing.T) {
	root := newCA(t, "root", 100*24*time.Hour, nil)
	upper := newCA(t, "upper", 2*time.Hour, root)
	lower := newCA(t, "lower", 50*24*time.Hour, upper)
	for name, test := range map[string]struct {
		pair  identity.KeyPair
		chain []*ca
		end   time.Duration
	}{
		"root alone":       {root.pair(t), nil, WorkloadLife},
		"without the root": {lower.pair(t, upper), []*ca{lower, upper}, 2 * time.Hour},
		"with the root":    {lower.pair(t, upper, root), []*ca{lower, upper}, 2 * time.Hour},
		"one intermediate": {upper.pair(t, root), []*ca{upper}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			wt.authority(test.pair)
			leaf := wt.issue()
			certs := chain(t, leaf)
			var want, got []string
			for _, c := range test.chain {
				want = append(want, c.cert.Subject.CommonName)
			}
			for _, c := range certs[1:] {
				got = append(got, c.Subject.CommonName)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if !leaf.NotAfter.Equal(identitytest.Epoch.Add(test.end)) {
				t.Errorf("ends at %s", leaf.NotAfter)
			}
			if err := verify(certs, root, identitytest.Epoch, x509.ExtKeyUsageClientAuth); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWorkloadChainChanges adds an intermediate after the same first certificate.
func TestWorkloadChainChanges(t *testing.T) {
	root := newCA(t, "root", 100*24*time.Hour, nil)
	upper := newCA(t, "upper", 90*24*time.Hour, root)
	lower := newCA(t, "lower", 50*24*time.Hour, upper)
	wt := newWorkloadTest(t, identitytest.Memory(t))
	wt.authority(lower.pair(t))
	if err := verify(chain(t, wt.issue()), root, identitytest.Epoch, x509.ExtKeyUsageClientAuth); err == nil {
		t.Fatal("verifies without its intermediate")
	}
	wt.authority(lower.pair(t, upper))
	if err := verify(chain(t, wt.issue()), root, identitytest.Epoch, x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
}

func TestWorkloadAuthorityKeys(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, minRSABits)
	if err != nil {
		t.Fatal(err)
	}
	withRSA := newCAWith(t, "m", 48*time.Hour, nil, rsaKey)
	ec := newCA(t, "m", 48*time.Hour, nil)
	sec1, err := x509.MarshalECPrivateKey(ec.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	parameters := pemtext.Encode("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7})
	for name, test := range map[string]struct {
		ca  *ca
		key []byte
	}{
		"PKCS #1 PEM": {withRSA, pemtext.Encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))}, "PKCS #1 DER": {withRSA, x509.MarshalPKCS1PrivateKey(rsaKey)},
		"PKCS #8 RSA": {withRSA, withRSA.pair(t).Key}, "PKCS #8 EC": {ec, ec.pair(t).Key},
		"SEC 1": {ec, pemtext.Encode("EC PRIVATE KEY", sec1)}, "SEC 1 with parameters": {ec, append(parameters, pemtext.Encode("EC PRIVATE KEY", sec1)...)},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			wt.authority(identity.KeyPair{Certificate: test.ca.pem(), Key: test.key})
			if err := verify(chain(t, wt.issue()), test.ca, identitytest.Epoch, x509.ExtKeyUsageServerAuth); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWorkloadAuthorityUnusable plants a canary text in data that is not a key, which no
// error may quote.
func TestWorkloadAuthorityUnusable(t *testing.T) {
	const canary = "c4n4ry"
	good, other := newCA(t, "m", 48*time.Hour, nil), newCA(t, "m", 48*time.Hour, nil)
	early := newCA(t, "m", 48*time.Hour, nil)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	key := other.pair(t).Key
	secret := strings.Split(string(key), "\n")[1]
	for name, test := range map[string]struct {
		pair identity.KeyPair
		move time.Duration
	}{
		"text":                {identity.KeyPair{Certificate: good.pem(), Key: []byte(canary)}, 0},
		"PEM of text":         {identity.KeyPair{Certificate: good.pem(), Key: pemtext.Encode("PRIVATE KEY", []byte(canary))}, 0},
		"no key":              {identity.KeyPair{Certificate: good.pem()}, 0},
		"no certificate":      {identity.KeyPair{Key: key}, 0},
		"key as certificate":  {identity.KeyPair{Certificate: key, Key: key}, 0},
		"certificate is text": {identity.KeyPair{Certificate: pemtext.Certificate([]byte(canary)), Key: key}, 0},
		"key of another":      {identity.KeyPair{Certificate: good.pem(), Key: key}, 0},
		"key of another type": {identity.KeyPair{Certificate: good.pem(), Key: pemtext.Encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small))}, 0},
		"ended":               {good.pair(t), 48 * time.Hour},
		"not begun":           {early.pair(t), -2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			wt := newWorkloadTest(t, identitytest.Memory(t))
			wt.authority(test.pair)
			wt.clock.Advance(test.move)
			for range 2 {
				if err := wt.fails(fault.Unavailable); strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), secret) {
					t.Errorf("shows the secret: %v", err)
				}
			}
			if wt.asked.Load() != 1 {
				t.Errorf("asked %d times", wt.asked.Load())
			}
			wt.clock.Advance(-test.move)
			wt.authority(other.pair(t))
			wt.issue() // another authority does not wait for the first one
		})
	}
}

// TestWorkloadKeyCorrected keeps the certificate and corrects its key.
func TestWorkloadKeyCorrected(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	good := wt.root.pair(t)
	wt.authority(identity.KeyPair{Certificate: good.Certificate, Key: newCA(t, "x", time.Hour, nil).pair(t).Key})
	wt.fails(fault.Unavailable)
	wt.authority(good)
	wt.clock.Advance(firstCooldown)
	if err := verify(chain(t, wt.issue()), wt.root, wt.clock.Now(), x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
}

// TestWorkloadCooldown: 1,000 proxies want a certificate of an authority that fails for some
// minutes.
func TestWorkloadCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		wt := newWorkloadTest(t, s)
		const proxies = 1000
		for i := range proxies {
			wt.sets(fmt.Sprint("web-", i), mesh.Tags{mesh.TagService: "web"})
		}
		signLeaf := wt.sign
		release := make(chan struct{})
		var down atomic.Bool
		down.Store(true)
		wt.sign = func(ws *workloadSigner, o *order) (*Leaf, error) {
			if !down.Load() {
				return signLeaf(ws, o)
			}
			wt.asked.Add(1)
			<-release
			return nil, errors.New("down")
		}
		all := func() (failed int64) {
			var wg sync.WaitGroup
			var n atomic.Int64
			for i := range proxies {
				wg.Go(func() {
					if _, err := wt.Issue(context.Background(), "m", fmt.Sprint("web-", i)); fault.Is(err, fault.Unavailable) {
						n.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait() // one asks, or none, and the others wait
			close(release)
			wg.Wait()
			release = make(chan struct{})
			return n.Load()
		}
		for i, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			pause *= time.Second
			if failed := all(); failed != proxies || wt.asked.Load() != int64(i+1) {
				t.Fatalf("round %d: %d failed, asked %d times", i, failed, wt.asked.Load())
			}
			wt.clock.Advance(pause - time.Millisecond)
			if failed := all(); failed != proxies || wt.asked.Load() != int64(i+1) {
				t.Fatalf("round %d before %s: %d failed, asked %d times", i, pause, failed, wt.asked.Load())
			}
			wt.clock.Advance(time.Millisecond)
		}
		down.Store(false)
		if failed := all(); failed != 0 {
			t.Errorf("%d failed after it recovered", failed)
		}
		down.Store(true)
		asked := wt.asked.Load()
		wt.sets("web", mesh.Tags{mesh.TagService: "other"})
		close(release)
		wt.fails(fault.Unavailable)
		wt.clock.Advance(firstCooldown)
		wt.fails(fault.Unavailable)
		if got := wt.asked.Load() - asked; got != 2 {
			t.Errorf("asked %d times: the pause did not begin anew", got)
		}
	})
}

// TestWorkloadFailuresTogether: a working authority fails while many ask it at the same
// time. All of this counts as one failure.
func TestWorkloadFailuresTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		wt := newWorkloadTest(t, s)
		wt.issue()
		release := make(chan struct{})
		wt.sign = func(*workloadSigner, *order) (*Leaf, error) {
			wt.asked.Add(1)
			<-release
			return nil, errors.New("down")
		}
		const proxies = 50
		var wg sync.WaitGroup
		for i := range proxies {
			name := fmt.Sprint("web-", i)
			wt.sets(name, mesh.Tags{mesh.TagService: "web"})
			wg.Go(func() {
				if _, err := wt.Issue(context.Background(), "m", name); !fault.Is(err, fault.Unavailable) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := wt.asked.Load(); got != 1+proxies {
			t.Errorf("asked %d times: they waited for each other", got)
		}
		close(release)
		wg.Wait()
		wt.Forget("m", "web")
		wt.clock.Advance(firstCooldown - time.Millisecond)
		wt.fails(fault.Unavailable)
		wt.clock.Advance(time.Millisecond)
		wt.fails(fault.Unavailable)
		if got := wt.asked.Load(); got != 2+proxies {
			t.Errorf("asked %d times: the first pause was not %s", got, firstCooldown)
		}
	})
}

// TestWorkloadCooldownIsOfOneMesh: the authority of one mesh fails, and the other mesh is
// not affected.
func TestWorkloadCooldownIsOfOneMesh(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	storetest.Place(t, wt.store, mesh.Meshes, "", "bad", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca"}}}})
	storetest.Place(t, wt.store, mesh.Dataplanes, "bad", "web", &mesh.Dataplane{Networking: &mesh.Networking{Inbound: []mesh.Inbound{{Tags: mesh.Tags{"a": "b"}}}}})
	storetest.Place(t, wt.store, Authorities, "bad", "bad", &Authority{})
	if _, err := wt.Issue(t.Context(), "bad", "web"); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	wt.issue()
}

// TestWorkloadWaitEnds: a caller that waits for another one's question stops waiting when its
// context ends.
func TestWorkloadWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		wt := newWorkloadTest(t, s)
		wt.sets("web-2", mesh.Tags{mesh.TagService: "web"})
		release := make(chan struct{})
		wt.sign = func(*workloadSigner, *order) (*Leaf, error) { <-release; panic("the authority's library") }
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was hidden")
				}
			}()
			_, _ = wt.Issue(context.Background(), "m", "web")
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() {
			if _, err := wt.Issue(ctx, "m", "web-2"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if err := wt.fails(fault.Unavailable); !strings.Contains(err.Error(), "a moment ago") {
			t.Error(err)
		}
	})
}
