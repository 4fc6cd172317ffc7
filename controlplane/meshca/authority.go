package meshca

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Authorities is the kind of the authorities in force, one per mesh under the
// mesh's name. It is the secret side of [mesh.Trusts]: both are written in one
// transaction, so that they never differ.
var Authorities = &model.Kind{
	Name: "mesh_authority", Path: "mesh-authorities", Scoping: model.Mesh,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
	New: func() any { return new(Authority) },
}

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{Authorities} }

// Phases of the rotation of an authority. The empty phase is none.
const (
	// PhaseTrusting means that proxies learn to trust the pending authority.
	PhaseTrusting = "trusting"
	// PhaseSigning means that the new authority signs and that proxies may still
	// have certificates of previous ones.
	PhaseSigning = "signing"
)

// Authority is who signs in a mesh, and how far its rotation is.
type Authority struct {
	// Backend is the name of the backend that Current came from.
	Backend string `json:"backend"`
	// Current signs.
	Current identity.KeyPair `json:"current"`
	// LeafLife is the longest life of certificates that Current has signed.
	LeafLife time.Duration `json:"leaf_life"`
	// Phase is one of the phases above, or empty.
	Phase string `json:"phase,omitempty"`
	// Pending is trusted but does not sign yet; set in [PhaseTrusting] only.
	Pending *identity.KeyPair `json:"pending,omitempty"`
	// PendingBackend is the backend that Pending came from.
	PendingBackend string `json:"pending_backend,omitempty"`
	// Previous are trusted and no longer sign, the longest retired first.
	Previous []RetiredRoot `json:"previous,omitempty"`
}

// maxPrevious bounds the roots that are trusted for old certificates alone.
// With so many left a mesh keeps its authority until one of them is gone.
const maxPrevious = 8

// RetiredRoot is a root that is trusted only for the certificates still in use.
type RetiredRoot struct {
	// Certificate is PEM.
	Certificate []byte `json:"certificate"`
	// Until is when the last certificate under it has expired.
	Until time.Time `json:"until"`
	// Life is the longest of certificates under it; 0, of an older version, for any.
	Life time.Duration `json:"life,omitempty"`
}

func (p *RetiredRoot) life() time.Duration { return cmp.Or(p.Life, math.MaxInt64) }

// longest is the longest life of certificates under the roots of this state.
func (a *Authority) longest() time.Duration {
	life := a.LeafLife
	for i := range a.Previous {
		life = max(life, a.Previous[i].life())
	}
	return life
}

// lasting returns the state in which certificates of a life are signed; a itself if they
// are already, or there is no state so far.
func (a *Authority) lasting(life time.Duration) *Authority {
	if a == nil || a.LeafLife >= life {
		return a
	}
	next := *a
	next.LeafLife = life
	return &next
}

// wanted returns the pair that the enabled backend of a mesh asks for; nil if
// mutual TLS is off.
func wanted(r store.Reader, meshName string, m *mesh.Mesh) (*identity.KeyPair, error) {
	backend := m.Authority()
	if backend == nil {
		return nil, nil
	}
	cert := &mesh.DataSource{Secret: mesh.BuiltinCert(meshName, backend.Name)}
	key := &mesh.DataSource{Secret: mesh.BuiltinKey(meshName, backend.Name)}
	switch backend.Type {
	case mesh.AuthorityBuiltin:
	case mesh.AuthorityProvided:
		conf := cmp.Or(backend.Conf, &mesh.AuthorityConf{})
		cert, key = conf.Cert, conf.Key
	default:
		return nil, fault.New(fault.Unsupported, "could not find installed plugin for this type")
	}
	certPEM, err := mesh.Load(r, meshName, cert)
	if err != nil {
		return nil, fmt.Errorf("certificate of backend %s: %w", backend.Name, err)
	}
	keyPEM, err := mesh.Load(r, meshName, key)
	if err != nil {
		return nil, fmt.Errorf("key of backend %s: %w", backend.Name, err)
	}
	return &identity.KeyPair{Certificate: certificates(certPEM), Key: keyPEM}, nil
}

// certificates returns the certificates of a PEM text and nothing else of it: a
// private key pasted beside them must not get into what proxies are sent.
func certificates(text []byte) []byte {
	var out []byte
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		if block.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
}

// trust is what proxies are to believe in this state. The order of the roots
// depends on nothing but the roots, so that a step which trusts the same ones
// sends proxies nothing.
func (a *Authority) trust() *mesh.Trust {
	bundles := [][]byte{a.Current.Certificate}
	if a.Pending != nil {
		bundles = append(bundles, a.Pending.Certificate)
	}
	for _, p := range a.Previous {
		bundles = append(bundles, p.Certificate)
	}
	var roots [][]byte
	for _, bundle := range bundles {
		for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
			roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	slices.SortFunc(roots, bytes.Compare)
	roots = slices.CompactFunc(roots, bytes.Equal)
	return &mesh.Trust{Backend: a.Backend, Issuer: identity.Issuer(a.Current.Certificate), Roots: bytes.Join(roots, nil)}
}

// aim returns the state in which the mesh is on its way to a pair; a itself if it
// is already. A nil state is a mesh without an authority so far.
func (a *Authority) aim(backend string, pair *identity.KeyPair, life time.Duration) *Authority {
	if a == nil {
		return &Authority{Backend: backend, Current: *pair, LeafLife: life}
	}
	a = a.lasting(life)
	next := *a
	switch {
	case sameAuthority(&a.Current, pair):
		next.Backend, next.Pending, next.PendingBackend = backend, nil, ""
		if a.Phase == PhaseTrusting {
			next.Phase = next.settling()
		}
	case a.Pending != nil && sameAuthority(a.Pending, pair):
		next.PendingBackend = backend
	case a.Pending == nil && len(a.Previous) >= maxPrevious:
	default:
		next.Phase, next.Pending, next.PendingBackend = PhaseTrusting, pair, backend
	}
	if next.Phase == a.Phase && next.Backend == a.Backend && next.Pending == a.Pending &&
		next.PendingBackend == a.PendingBackend {
		return a
	}
	return &next
}

// sameAuthority compares certificates: of those that match, keys can only differ
// in how they are written.
func sameAuthority(a, b *identity.KeyPair) bool { return bytes.Equal(a.Certificate, b.Certificate) }

// heads reports whether a pair signs or is about to.
func (a *Authority) heads(pair *identity.KeyPair) bool {
	return sameAuthority(&a.Current, pair) || a.Pending != nil && sameAuthority(a.Pending, pair)
}

// settling is the phase after the last step that changes who signs.
func (a *Authority) settling() string {
	if len(a.Previous) > 0 {
		return PhaseSigning
	}
	return ""
}

// sign returns the state in which the pending authority signs. Certificates of
// the one before are good for its LeafLife at most; [identity.Backdate] is for
// those being signed at this moment.
func (a *Authority) sign(clock Clock, life time.Duration) *Authority {
	next := *a
	retired := RetiredRoot{Certificate: a.Current.Certificate, Life: max(a.LeafLife, life)}
	retired.Until = clock.LatestFor(retired.Life).Add(retired.Life + identity.Backdate)
	next.Previous = nil
	for _, p := range a.Previous {
		if !bytes.Equal(p.Certificate, retired.Certificate) {
			next.Previous = append(next.Previous, p)
			continue
		}
		if p.Until.After(retired.Until) {
			retired.Until = p.Until
		}
		retired.Life = max(p.life(), retired.Life)
	}
	next.Previous = append(next.Previous, retired)
	next.Backend, next.Current, next.LeafLife = a.PendingBackend, *a.Pending, life
	next.Phase, next.Pending, next.PendingBackend = PhaseSigning, nil, ""
	return &next
}

// retire returns the state in which only the current authority is trusted.
func (a *Authority) retire() *Authority {
	next := *a
	next.Phase, next.Previous = "", nil
	return &next
}

// left is how long a root is trusted at least.
func (p *RetiredRoot) left(clock Clock) time.Duration {
	return p.Until.Sub(clock.EarliestFor(p.life()))
}

// expire returns the state without the roots under which every certificate has
// expired; a itself if there are none.
func (a *Authority) expire(clock Clock) *Authority {
	gone := func(p RetiredRoot) bool { return p.left(clock) <= 0 }
	if a == nil || !slices.ContainsFunc(a.Previous, gone) {
		return a
	}
	next := *a
	next.Previous = slices.DeleteFunc(slices.Clone(a.Previous), gone)
	if next.Phase == PhaseSigning {
		next.Phase = next.settling()
	}
	return &next
}
