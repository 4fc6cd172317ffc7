package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Lifetimes of certificates. All but the authority are renewed when a third of
// their life is left.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	listenerLife  = 825 * 24 * time.Hour
	leafLife      = 30 * 24 * time.Hour
	backdate      = 5 * time.Minute
)

// Authority signs for one control plane.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  func() time.Time
	db   store.Store

	mu     sync.Mutex
	leaves map[string]*leaf
}

type leaf struct {
	pair  *KeyPair
	renew time.Time
}

// OpenAuthority loads the authority, or makes it at first start.
func OpenAuthority(ctx context.Context, s store.Store, now func() time.Time) (*Authority, error) {
	a := &Authority{now: now, db: s, leaves: map[string]*leaf{}}
	pair, err := ensure(ctx, s, keyAuthority, always, a.generate)
	if err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	cert, key, err := parsePair(pair)
	if err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	a.cert, a.key, a.pem = cert, key, pair.Certificate
	return a, nil
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return a.pem }

// ID is the same for all processes that share the authority.
func (a *Authority) ID() string {
	sum := sha256.Sum256(a.cert.Raw)
	id, err := uuid.FromBytes(sum[:16])
	if err != nil { // 16 bytes are always one
		panic(err)
	}
	return id.String()
}

// Pool holds the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *Authority) generate() (*KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := a.template("Meshgate certificate authority", authorityLife)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return encodePair(t, t, key, key)
}

func (a *Authority) template(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: a.now().Add(-backdate), NotAfter: a.now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}, nil
}

// issue signs a leaf for an identity, if not nil, and for DNS names and IP
// addresses. Names come from settings, so none is taken for an identity.
func (a *Authority) issue(life time.Duration, usage x509.ExtKeyUsage, identity *url.URL, names ...string) (*KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := a.template("", life)
	if err != nil {
		return nil, err
	}
	t.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	if identity != nil {
		t.URIs = []*url.URL{identity}
	} else {
		t.Subject.CommonName = names[0]
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	return encodePair(t, a.cert, key, a.key)
}

// DataPlaneConfig is the TLS configuration of the data-plane server. Its
// certificate alone says so: nothing else that this authority signs, and no proxy,
// can be taken for it.
func (a *Authority) DataPlaneConfig(names []string) *tls.Config {
	return a.serverConfig(contract.DataPlaneURI(), names)
}

// ServerConfig is the TLS configuration of the control plane's other listeners, the
// encrypted sides of its APIs.
func (a *Authority) ServerConfig(names []string) *tls.Config { return a.serverConfig(nil, names) }

// serverConfig verifies client certificates if given; who needs one checks
// VerifiedChains.
func (a *Authority) serverConfig(identity *url.URL, names []string) *tls.Config {
	id := "server of " + strings.Join(names, ",")
	if identity != nil {
		id = identity.String() + " " + id
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.Pool(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := a.leafFor(id, func() (*KeyPair, error) { return a.issue(leafLife, x509.ExtKeyUsageServerAuth, identity, names...) })
			if err != nil {
				return nil, err
			}
			c, err := tls.X509KeyPair(pair.Certificate, pair.Key)
			return &c, err
		},
	}
}

// Node returns the client certificate of a gateway,
// spiffe://meshgate/cp/<control plane>/<instance> for node id cp/<...>/<...>.
func (a *Authority) Node(nodeID string) (*KeyPair, error) {
	return a.leafFor(nodeID, func() (*KeyPair, error) {
		return a.issue(leafLife, x509.ExtKeyUsageClientAuth, &url.URL{Scheme: "spiffe", Host: "meshgate", Path: "/" + nodeID})
	})
}

// Listener returns the certificate of the gateways' public listener, made at
// first start and kept, so that clients which pinned it are not surprised, until
// a third of its life is left or it lacks a name. Gateways get its key, so it says
// nothing that clients of the data-plane server would accept.
func (a *Authority) Listener(ctx context.Context, names []string) (*KeyPair, error) {
	return ensure(ctx, a.db, keyGateway, func(p *KeyPair) bool { return a.lasts(p, names) }, func() (*KeyPair, error) {
		return a.issue(listenerLife, x509.ExtKeyUsageServerAuth, nil, names...)
	})
}

// lasts reports whether a listener's certificate has every name and more than a
// third of its life left.
func (a *Authority) lasts(p *KeyPair, names []string) bool {
	cert, _, err := parsePair(p)
	if err != nil || !a.now().Before(cert.NotAfter.Add(-listenerLife/3)) {
		return false
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil && !slices.ContainsFunc(cert.IPAddresses, ip.Equal) || ip == nil && !slices.Contains(cert.DNSNames, n) {
			return false
		}
	}
	return true
}

// leafFor returns a leaf from memory while two thirds of its life have not passed.
func (a *Authority) leafFor(id string, issue func() (*KeyPair, error)) (*KeyPair, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leaves[id]; l != nil && a.now().Before(l.renew) {
		return l.pair, nil
	}
	pair, err := issue()
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", id, err)
	}
	a.leaves[id] = &leaf{pair: pair, renew: a.now().Add(leafLife * 2 / 3)}
	return pair, nil
}

func encodePair(t, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (*KeyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &KeyPair{
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

func parsePair(p *KeyPair) (*x509.Certificate, crypto.Signer, error) {
	block, _ := pem.Decode(p.Certificate)
	if block == nil {
		return nil, nil, errors.New("certificate is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(p.Key)
	return cert, key, err
}

func parseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("key is not PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	s, ok := k.(crypto.Signer)
	if !ok {
		return nil, errors.New("key cannot sign")
	}
	return s, nil
}
