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
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Lifetimes of certificates. All but the authority are renewed when a third of
// their life is left.
const (
	// AuthorityLife is the life of authorities: of the control plane's own, and of a
	// mesh's unless the mesh says otherwise.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	listenerLife  = 825 * 24 * time.Hour
	leafLife      = 30 * 24 * time.Hour
	// Backdate is how long before its creation a certificate or token becomes valid, for
	// machines whose clocks are behind.
	Backdate = 5 * time.Minute
)

// Authority signs for one control plane. While it is being replaced, two authorities are
// trusted.
type Authority struct {
	now func() time.Time
	db  store.Store

	steps  sync.Mutex // held while a step is taken
	mu     sync.Mutex
	state  trusted
	leaves map[string]*leaf
}

type leaf struct {
	pair  *KeyPair
	renew time.Time
}

// OpenAuthority loads the authority, or makes it at first start.
func OpenAuthority(ctx context.Context, s store.Store, now func() time.Time) (*Authority, error) {
	a := &Authority{now: now, db: s, leaves: map[string]*leaf{}}
	if _, err := ensure(ctx, s, keyAuthority, always, a.generate); err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	if err := s.View(ctx, func(r store.Reader) (err error) {
		a.state, err = readTrusted(r)
		return err
	}); err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	return a, nil
}

// PEM returns the trusted certificates: that of the authority and, while it is being
// replaced, that of the other one.
func (a *Authority) PEM() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.bundle()
}

// ID is the same for all processes that share the authority. It stays the same when the
// authority is replaced.
func (a *Authority) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.id
}

func idOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	id, err := uuid.FromBytes(sum[:16])
	if err != nil { // 16 bytes always make an id
		panic(err)
	}
	return id.String()
}

// Pool holds the certificates of [Authority.PEM].
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(a.PEM())
	return p
}

// current returns the authority that signs.
func (a *Authority) current() signing {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.current
}

func (a *Authority) generate() (*KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := a.template("Meshgate certificate authority", AuthorityLife)
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
		NotBefore: a.now().Add(-Backdate), NotAfter: a.now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}, nil
}

// issue signs a leaf for an identity, if it is not nil, and for DNS names and IP addresses.
// The names come from settings, so none of them may become an identity.
func (a *Authority) issue(by signing, life time.Duration, usage x509.ExtKeyUsage, identity *url.URL, names ...string) (*KeyPair, error) {
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
	return encodePair(t, by.cert, key, by.key)
}

// DataPlaneConfig is the TLS configuration of the data-plane server. Only its certificate
// contains the identity of that server. Nothing else that this authority signs, and no
// proxy, can pass as it. To a client that offers [contract.ProtocolCertificate], no client
// certificate is verified, whoever has signed it.
func (a *Authority) DataPlaneConfig(names []string) *tls.Config {
	return a.serverConfig(contract.DataPlaneURI(), names)
}

// ServerConfig is the TLS configuration of the control plane's other listeners, the
// encrypted sides of its APIs.
func (a *Authority) ServerConfig(names []string) *tls.Config { return a.serverConfig(nil, names) }

// serverConfig verifies client certificates if they are given. A handler that needs one
// checks VerifiedChains.
func (a *Authority) serverConfig(identity *url.URL, names []string) *tls.Config {
	id := "server of " + strings.Join(names, ",")
	if identity != nil {
		id = identity.String() + " " + id
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.Pool(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := a.leafFor(id, func(by signing) (*KeyPair, error) {
				return a.issue(by, leafLife, x509.ExtKeyUsageServerAuth, identity, names...)
			})
			if err != nil {
				return nil, err
			}
			c, err := tls.X509KeyPair(pair.Certificate, pair.Key)
			return &c, err
		},
	}
	// The trusted authorities change while the server runs.
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := cfg.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, a.Pool()
		if identity != nil && slices.Contains(hello.SupportedProtos, contract.ProtocolCertificate) {
			// Each connection proves the key anew.
			now.ClientAuth, now.ClientCAs, now.SessionTicketsDisabled = tls.RequestClientCert, nil, true
		}
		return now, nil
	}
	return cfg
}

// Node returns the client certificate of a gateway,
// spiffe://meshgate/cp/<control plane>/<instance> for node id cp/<...>/<...>.
func (a *Authority) Node(nodeID string) (*KeyPair, error) {
	return a.leafFor(nodeID, func(by signing) (*KeyPair, error) {
		return a.issue(by, leafLife, x509.ExtKeyUsageClientAuth, &url.URL{Scheme: "spiffe", Host: "meshgate", Path: "/" + nodeID})
	})
}

// Listener returns the certificate of the gateways' public listener. It is made at first
// start and kept, for the sake of clients that have pinned it. It is replaced when only a
// third of its life is left, it lacks a name, or another authority signs. Gateways get its
// key, so clients of the data-plane server must not accept it.
func (a *Authority) Listener(ctx context.Context, names []string) (*KeyPair, error) {
	return ensure(ctx, a.db, keyGateway, func(p *KeyPair) bool { return a.lasts(p, names) }, func() (*KeyPair, error) {
		return a.issue(a.current(), listenerLife, x509.ExtKeyUsageServerAuth, nil, names...)
	})
}

// lasts reports whether a listener's certificate has every name, is signed by the current
// authority, and has more than a third of its life left.
func (a *Authority) lasts(p *KeyPair, names []string) bool {
	cert, _, err := parsePair(p)
	if err != nil || !a.now().Before(cert.NotAfter.Add(-listenerLife/3)) || cert.CheckSignatureFrom(a.current().cert) != nil {
		return false
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil && !slices.ContainsFunc(cert.IPAddresses, ip.Equal) || ip == nil && !slices.Contains(cert.DNSNames, n) {
			return false
		}
	}
	return true
}

// leafFor returns a leaf from memory until two thirds of its life have passed.
func (a *Authority) leafFor(id string, issue func(by signing) (*KeyPair, error)) (*KeyPair, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leaves[id]; l != nil && a.now().Before(l.renew) {
		return l.pair, nil
	}
	pair, err := issue(a.state.current)
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
	text, err := pemtext.Key(key)
	if err != nil {
		return nil, err
	}
	return &KeyPair{Key: text, Certificate: pemtext.Certificate(der)}, nil
}

func parsePair(p *KeyPair) (*x509.Certificate, crypto.Signer, error) {
	cert, err := pemtext.Leaf(p.Certificate)
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(p.Key)
	return cert, key, err
}

func parseKey(data []byte) (crypto.Signer, error) {
	block := pemtext.First(data)
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
