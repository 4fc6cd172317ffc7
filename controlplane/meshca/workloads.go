package meshca

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// WorkloadLife is the validity of a proxy's certificate unless the mesh says otherwise.
const WorkloadLife = mesh.DefaultLeafLife

// Leaf is the identity of a proxy. All callers that ask for it share it, so it must not be
// changed.
type Leaf struct {
	// Certificate is the chain, leaf first, and Key is PKCS #8, both PEM.
	Certificate, Key []byte
	// Backend and Issuer name the authority that signed; see mesh.Trust.
	Backend, Issuer string
	// Sources are the tag sets that the certificate vouches for, in no particular order.
	Sources []mesh.Tags
	// Issued and NotAfter are times of the wall clock only, because the monotonic clock
	// stands still while the host sleeps.
	Issued, NotAfter time.Time
}

// Workloads signs the identities of proxies. It is safe for concurrent use.
type Workloads struct {
	store store.Store
	now   func() time.Time

	// sign is replaced by tests that count how often an authority is asked.
	sign func(*workloadSigner, *order) (*Leaf, error)

	mu      sync.Mutex
	signers map[string]*workloadSigner // by mesh
	leaves  map[model.Key]*issuedLeaf  // by dataplane
	sweepAt int                        // number of leaves at which old ones are dropped
}

// minSweep is the number of identities below which none is dropped because of its age.
const minSweep = 1024

// issuedLeaf is an identity together with its order.
type issuedLeaf struct {
	*Leaf
	orderID
}

// orderID is equal for orders that one identity can serve.
type orderID struct {
	// sources distinguishes orders with the same names that are grouped differently.
	names, sources, backend string
	life                    time.Duration
	authority               [sha256.Size]byte
}

// reuse is the part of its life in which an identity is given out again, so that a proxy
// that comes back is not sent what it already holds. It ends before renewals begin.
const reuse = 0.65

// NewWorkloads returns the signer of a store's meshes.
func NewWorkloads(s store.Store, now func() time.Time) *Workloads {
	w := &Workloads{store: s, now: now, signers: map[string]*workloadSigner{}, leaves: map[model.Key]*issuedLeaf{}, sweepAt: minSweep}
	w.sign = w.signLeaf
	return w
}

// order is what must be signed, read in one state of the store.
type order struct {
	authority *Authority
	names     []*url.URL
	sources   []mesh.Tags
	life      time.Duration
	// usages are what the certificate may be shown for.
	usages []x509.ExtKeyUsage
}

func (o *order) id() orderID {
	sources := make([]string, 0, len(o.sources))
	for _, tags := range o.sources {
		sources = append(sources, tags.String())
	}
	slices.Sort(sources)
	return orderID{fmt.Sprint(o.names), strings.Join(sources, "\n"), o.authority.Backend, o.life, sha256.Sum256(o.authority.Current.Certificate)}
}

// Issue signs the identity of a dataplane, for its current tags, by the authority that
// currently signs in its mesh. A recent identity for the same order is returned again.
// Faults: NotFound for a dataplane that does not exist, Invalid for tags that no certificate
// can carry, Unavailable while the mesh has no authority or the authority has just failed.
func (w *Workloads) Issue(ctx context.Context, meshName, dataplane string) (*Leaf, error) {
	return w.issue(ctx, model.Key{Kind: mesh.Dataplanes.Name, Scope: meshName, Name: dataplane})
}

// IssueEgress does what Issue does, for an egress as one of a mesh: its only name there is that of
// egresses. It fails with Unavailable in a mesh that is not left through egresses.
func (w *Workloads) IssueEgress(ctx context.Context, meshName, egress string) (*Leaf, error) {
	return w.issue(ctx, model.Key{Kind: mesh.ZoneEgresses.Name, Scope: meshName, Name: egress})
}

func (w *Workloads) issue(ctx context.Context, key model.Key) (*Leaf, error) {
	meshName := key.Scope
	o, err := w.order(ctx, key)
	if err != nil {
		return nil, err
	}
	id := o.id()
	if leaf := w.held(key, id); leaf != nil {
		return leaf, nil
	}
	admitted, err := w.admit(ctx, meshName, &o.authority.Current)
	if err != nil {
		return nil, err
	}
	leaf, err := w.ask(admitted, o)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the authority of mesh %s cannot sign", meshName)
	}
	return w.keep(key, &issuedLeaf{leaf, id}), nil
}

// ask always reports the end of signing to done, even after a panic, because others may wait
// for it.
func (w *Workloads) ask(t turn, o *order) (leaf *Leaf, err error) {
	err = errors.New("signing did not end")
	defer func() { w.done(t, err) }()
	leaf, err = w.sign(t.workloadSigner, o)
	return leaf, err
}

// held returns the identity that serves an order, or nil.
func (w *Workloads) held(key model.Key, id orderID) *Leaf {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.leaves[key]; l != nil && l.orderID == id && l.young(w.now()) {
		return l.Leaf
	}
	return nil
}

// keep remembers an identity, unless one for the same order was kept meanwhile, and returns
// the one that counts. When the number of identities has doubled since the last time, it
// drops those that will not be given out again, because their dataplanes may have been
// deleted during signing.
func (w *Workloads) keep(key model.Key, leaf *issuedLeaf) *Leaf {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if l := w.leaves[key]; l != nil && l.orderID == leaf.orderID && l.young(now) {
		return l.Leaf
	}
	if len(w.leaves) >= w.sweepAt {
		maps.DeleteFunc(w.leaves, func(_ model.Key, l *issuedLeaf) bool { return !l.young(now) })
		w.sweepAt = max(minSweep, 2*len(w.leaves))
	}
	w.leaves[key] = leaf
	return leaf.Leaf
}

// young reports whether an identity can be given out again. An identity from the future was
// signed while the clock was ahead. It is not valid yet.
func (l *Leaf) young(now time.Time) bool {
	age := now.Sub(l.Issued)
	return age >= -identity.Backdate && age < time.Duration(reuse*float64(l.NotAfter.Sub(l.Issued)))
}

// Forget drops what is remembered of a deleted dataplane.
func (w *Workloads) Forget(meshName, dataplane string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leaves, model.Key{Kind: mesh.Dataplanes.Name, Scope: meshName, Name: dataplane})
}

// ForgetEgress drops what is remembered of a deleted egress.
func (w *Workloads) ForgetEgress(egress string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.leaves, func(key model.Key, _ *issuedLeaf) bool {
		return key.Kind == mesh.ZoneEgresses.Name && key.Name == egress
	})
}

func (w *Workloads) order(ctx context.Context, key model.Key) (*order, error) {
	o, meshName := &order{life: WorkloadLife}, key.Scope
	err := w.store.View(ctx, func(r store.Reader) error {
		err := o.name(r, key)
		if err != nil {
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
		held, err := r.Get(Authorities, meshName, meshName)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Unavailable, "the authority of mesh %s is not made yet", meshName)
		}
		if err != nil {
			return err
		}
		o.authority = held.Spec.(*Authority)
		// A longer life must be noted first, because the noted life decides how long a root
		// is trusted.
		if noted := o.authority.LeafLife; noted > 0 {
			o.life = min(o.life, noted)
		}
		return nil
	})
	return o, err
}

// name finds out the names of a proxy.
func (o *order) name(r store.Reader, key model.Key) error {
	if key.Kind == mesh.ZoneEgresses.Name {
		return o.nameEgress(r, key)
	}
	res, err := r.Get(mesh.Dataplanes, key.Scope, key.Name)
	if err != nil {
		return err
	}
	d := res.Spec.(*mesh.Dataplane)
	o.sources, o.usages = d.TagSets(), []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	o.names, err = identities(key.Scope, d)
	return err
}

// nameEgress makes the order of an egress. It calls no proxy of the mesh, so its certificate is none
// of clients: otherwise whoever has its key could call every service that permits all members.
func (o *order) nameEgress(r store.Reader, key model.Key) error {
	if _, err := r.Get(mesh.ZoneEgresses, "", key.Name); err != nil {
		return err
	}
	of, err := r.Get(mesh.Meshes, "", key.Scope)
	if err != nil {
		return err
	}
	name, ok := parseName(mesh.SPIFFE(key.Scope, mesh.EgressService))
	if !ok || !of.Spec.(*mesh.Mesh).LeavesByEgress() {
		return fault.New(fault.Unavailable, "mesh %s is not left through egresses", key.Scope)
	}
	o.names, o.usages = []*url.URL{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return nil
}

// LeafLife returns the validity of the certificates of a mesh with this authority.
func LeafLife(a *mesh.Authority) (time.Duration, error) {
	return a.LeafLife()
}

// identities returns the names that a certificate vouches for: each service, and then each value
// of each tag. It fails if any tag cannot be part of a name, because without that tag the
// proxy would escape the rules that deny the tag.
func identities(meshName string, d *mesh.Dataplane) ([]*url.URL, error) {
	names := map[string]*url.URL{}
	for _, tags := range d.TagSets() {
		if tags.Service() == mesh.EgressService {
			return nil, fault.New(fault.Invalid, "the service name %q stands for egresses in identities", mesh.EgressService)
		}
		for k, v := range tags {
			texts := []string{mesh.TagURI(k, v)}
			if k == mesh.TagService {
				texts = append(texts, mesh.SPIFFE(meshName, v))
			}
			for _, text := range texts {
				u, ok := parseName(text)
				if !ok || k == "" || v == "" || strings.Contains(v, "/") {
					return nil, fault.New(fault.Invalid, "tag %q with value %q cannot be part of an identity", k, v)
				}
				names[text] = u
			}
		}
	}
	if len(names) == 0 {
		return nil, fault.New(fault.Invalid, "the dataplane has no tags to be known by")
	}
	var out []*url.URL
	for _, text := range slices.Sorted(maps.Keys(names)) {
		out = append(out, names[text])
	}
	// Inbounds recognise a tag by its whole name, which ends where the next one begins: so those of
	// services come last. Whoever judges callers of many meshes goes by the mesh in the first name: so
	// one of them comes first, too.
	if i := slices.IndexFunc(out, func(u *url.URL) bool { return u.Scheme == "spiffe" }); i >= 0 {
		out = slices.Insert(out, 0, out[i])
	}
	return out, nil
}

// parseName parses a name that all readers of the certificate understand alike. It must be
// visible ASCII, which no reader writes differently, and its host must have no empty labels,
// because crypto/x509 refuses such certificates. A slash in the key of a tag ends the host.
func parseName(text string) (*url.URL, bool) {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, false
	}
	u, err := url.Parse(text)
	if err != nil || u.String() != text || u.ForceQuery || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, false
	}
	if u.Host != "" && slices.Contains(strings.Split(u.Host, "."), "") {
		return nil, false
	}
	return u, true
}

func (w *Workloads) signLeaf(s *workloadSigner, o *order) (*Leaf, error) {
	signer, err := w.authority(s, &o.authority.Current)
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
	now := w.now().Round(0)
	if err := signer.valid(now); err != nil {
		return nil, err
	}
	end := now.Add(o.life)
	if end.After(signer.notAfter) {
		end = signer.notAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-identity.Backdate), NotAfter: end, URIs: o.names,
		BasicConstraintsValid: true, // not an authority (X509-SVID 4.1)
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           o.usages,
	}, signer.cert, key.Public(), signer.key)
	if err != nil {
		return nil, err
	}
	text, err := pemtext.Key(key)
	if err != nil {
		return nil, err
	}
	return &Leaf{
		Certificate: append(pemtext.Certificate(der), signer.chain...),
		Key:         text,
		Backend:     o.authority.Backend, Issuer: identity.Issuer(o.authority.Current.Certificate), Sources: o.sources, Issued: now, NotAfter: end,
	}, nil
}
