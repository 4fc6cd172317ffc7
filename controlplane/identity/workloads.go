package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// WorkloadLife is the validity of a proxy's certificate unless the mesh says
// otherwise.
const WorkloadLife = 24 * time.Hour

// Bounds of the pause after an authority failed, in which it is not asked again,
// however many proxies want a certificate.
const (
	firstCooldown = time.Second
	lastCooldown  = 30 * time.Second
)

// Leaf is the identity of a proxy.
type Leaf struct {
	// Certificate is the chain, leaf first, and Key is PKCS #8, both PEM.
	Certificate, Key []byte
	// Backend and Issuer say who signed; see mesh.Trust.
	Backend, Issuer  string
	Issued, NotAfter time.Time
}

// Workloads signs the identities of proxies. It is safe for concurrent use.
type Workloads struct {
	store store.Store
	now   func() time.Time

	mu      sync.Mutex
	signers map[string]*workloadSigner // by issuer
	failing map[string]cooldown        // by mesh
	leaves  map[model.Key]*issuedLeaf  // by dataplane
}

// issuedLeaf is an identity with the names that it vouches for.
type issuedLeaf struct {
	*Leaf
	names string
}

// reuse is the part of its life in which an identity is given out again: a proxy
// that comes back is sent nothing that it holds. It ends before renewals begin.
const reuse = 0.65

// workloadSigner is an authority that was parsed.
type workloadSigner struct {
	cert  *x509.Certificate
	key   crypto.Signer
	chain []byte // what follows the leaf: intermediates, not the root
}

type cooldown struct {
	until time.Time
	pause time.Duration
	err   error
}

// NewWorkloads returns the signer of a store's meshes.
func NewWorkloads(s store.Store, now func() time.Time) *Workloads {
	return &Workloads{store: s, now: now, signers: map[string]*workloadSigner{}, failing: map[string]cooldown{}, leaves: map[model.Key]*issuedLeaf{}}
}

// order is what is to be signed, read in one state of the store.
type order struct {
	authority *MeshAuthority
	names     []*url.URL
	life      time.Duration
}

// Issue signs the identity of a dataplane, for its tags as they are now, by the
// authority that signs in its mesh now. Faults: NotFound for a dataplane that does
// not exist, Unavailable while the mesh has no authority or it has just failed.
func (w *Workloads) Issue(ctx context.Context, meshName, dataplane string) (*Leaf, error) {
	if err := w.cooling(meshName); err != nil {
		return nil, err
	}
	o, err := w.order(ctx, meshName, dataplane)
	if err != nil {
		return nil, err
	}
	key := model.Key{Kind: mesh.Dataplanes.Name, Scope: meshName, Name: dataplane}
	names := fmt.Sprint(o.names)
	w.mu.Lock()
	held := w.leaves[key]
	w.mu.Unlock()
	if held != nil && held.names == names && held.Issuer == Issuer(o.authority.Current.Certificate) && held.young(w.now()) {
		return held.Leaf, nil
	}
	leaf, err := w.sign(o)
	if err != nil {
		return nil, w.failed(meshName, err)
	}
	w.mu.Lock()
	delete(w.failing, meshName)
	w.leaves[key] = &issuedLeaf{leaf, names}
	w.mu.Unlock()
	return leaf, nil
}

func (l *Leaf) young(now time.Time) bool {
	return now.Sub(l.Issued) < time.Duration(reuse*float64(l.NotAfter.Sub(l.Issued)))
}

// Forget drops what is remembered of a dataplane that was deleted.
func (w *Workloads) Forget(meshName, dataplane string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leaves, model.Key{Kind: mesh.Dataplanes.Name, Scope: meshName, Name: dataplane})
}

func (w *Workloads) cooling(meshName string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.failing[meshName]; ok && w.now().Before(c.until) {
		return fault.Wrap(fault.Unavailable, c.err, "the authority of mesh %s failed a moment ago", meshName)
	}
	return nil
}

func (w *Workloads) failed(meshName string, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.failing[meshName]
	c.pause = min(max(firstCooldown, 2*c.pause), lastCooldown)
	c.until, c.err = w.now().Add(c.pause), err
	w.failing[meshName] = c
	return fault.Wrap(fault.Unavailable, err, "the authority of mesh %s cannot sign", meshName)
}

func (w *Workloads) order(ctx context.Context, meshName, dataplane string) (*order, error) {
	o := &order{life: WorkloadLife}
	err := w.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.Dataplanes, meshName, dataplane)
		if err != nil {
			return err
		}
		if o.names, err = identities(meshName, res.Spec.(*mesh.Dataplane)); err != nil {
			return err
		}
		of, err := r.Get(mesh.Meshes, "", meshName)
		if err != nil {
			return err
		}
		backend := of.Spec.(*mesh.Mesh).Authority()
		if backend == nil {
			return fault.New(fault.Unavailable, "mesh %s has no authority in force", meshName)
		}
		if o.life, err = LeafLife(backend); err != nil {
			return err
		}
		held, err := r.Get(MeshAuthorities, meshName, meshName)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Unavailable, "the authority of mesh %s is not made yet", meshName)
		}
		if err != nil {
			return err
		}
		o.authority = held.Spec.(*MeshAuthority)
		return nil
	})
	return o, err
}

// LeafLife is how long the certificates of a mesh with this authority are good.
func LeafLife(a *mesh.Authority) (time.Duration, error) {
	if a.DPCert == nil || a.DPCert.Rotation == nil || a.DPCert.Rotation.Expiration == "" {
		return WorkloadLife, nil
	}
	return lifetime(a.DPCert.Rotation.Expiration)
}

// identities are the names that a certificate vouches for: each service, and each
// value of each tag.
func identities(meshName string, d *mesh.Dataplane) ([]*url.URL, error) {
	var texts []string
	for _, tags := range d.TagSets() {
		for k, v := range tags {
			texts = append(texts, mesh.TagURI(k, v))
			if k == mesh.TagService {
				texts = append(texts, mesh.SPIFFE(meshName, v))
			}
		}
	}
	slices.Sort(texts)
	var out []*url.URL
	for _, text := range slices.Compact(texts) {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fault.New(fault.Invalid, "a tag of the dataplane cannot be part of an identity")
		}
		u, err := url.Parse(text)
		if err != nil || u.String() != text {
			return nil, fault.New(fault.Invalid, "a tag of the dataplane cannot be part of an identity")
		}
		out = append(out, u)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "the dataplane has no tags to be known by")
	}
	return out, nil
}

func (w *Workloads) sign(o *order) (*Leaf, error) {
	issuer := Issuer(o.authority.Current.Certificate)
	signer, err := w.signer(issuer, &o.authority.Current)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := w.now()
	end := now.Add(o.life)
	if end.After(signer.cert.NotAfter) {
		end = signer.cert.NotAfter
	}
	if !end.After(now) {
		return nil, fmt.Errorf("the authority's certificate ended at %s", signer.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-backdate), NotAfter: end, URIs: o.names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Leaf{
		Certificate: append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), signer.chain...),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		Backend:     o.authority.Backend, Issuer: issuer, Issued: now, NotAfter: end,
	}, nil
}

// maxSigners bounds the parsed authorities that are kept.
const maxSigners = 1024

// signer parses an authority once.
func (w *Workloads) signer(issuer string, pair *KeyPair) (*workloadSigner, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.signers[issuer]; s != nil {
		return s, nil
	}
	s := &workloadSigner{}
	block, rest := pem.Decode(pair.Certificate)
	if block == nil {
		return nil, errors.New("the authority's certificate is not PEM")
	}
	var err error
	if s.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	if s.key, err = parseSigner(pair.Key); err != nil {
		return nil, err
	}
	if rest = []byte(strings.TrimSpace(string(rest))); len(rest) > 0 {
		// The first certificate signs; what follows leads from it to the root.
		s.chain = append([]byte{}, pair.Certificate...)
	}
	if len(w.signers) >= maxSigners {
		clear(w.signers)
	}
	w.signers[issuer] = s
	return s, nil
}

// parseSigner reads a private key in PEM or DER: PKCS #8, PKCS #1 or SEC 1.
func parseSigner(data []byte) (crypto.Signer, error) {
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	if key, err := x509.ParsePKCS8PrivateKey(data); err == nil {
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
	}
	if key, err := x509.ParseECPrivateKey(data); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(data); err == nil {
		return key, nil
	}
	return nil, errors.New("the authority's key cannot be read") // the cause may quote it
}
