package meshca

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Authorities is the kind of the authorities in force, one per mesh under the mesh's name.
// It is the secret counterpart of [mesh.Trusts]: both are written in one transaction, so
// that they never differ.
var Authorities = &model.Kind{
	Name: "mesh_authority", Path: "mesh-authorities", Scoping: model.Mesh,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
	New: func() any { return new(Authority) },
}

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{Authorities} }

// Phases of the rotation of an authority. The empty phase means that no rotation is in
// progress.
const (
	// PhaseTrusting means that proxies learn to trust the pending authority.
	PhaseTrusting = "trusting"
	// PhaseSigning means that the new authority signs, and that proxies may still have
	// certificates of previous ones.
	PhaseSigning = "signing"
)

// Authority is the signing authority of a mesh and the state of its rotation.
type Authority struct {
	// Backend is the name of the backend that Current came from.
	Backend string `json:"backend"`
	// Current signs.
	Current identity.KeyPair `json:"current"`
	// LeafLife is the longest life of certificates that Current has signed.
	LeafLife time.Duration `json:"leaf_life"`
	// Phase is one of the phases above, or empty.
	Phase string `json:"phase,omitempty"`
	// Pending is trusted but does not sign yet. It is set only in [PhaseTrusting].
	Pending *identity.KeyPair `json:"pending,omitempty"`
	// PendingBackend is the backend that Pending came from.
	PendingBackend string `json:"pending_backend,omitempty"`
	// Previous are trusted but no longer sign. The one retired longest ago is first.
	Previous []RetiredRoot `json:"previous,omitempty"`
}

// maxPrevious bounds the roots that are trusted only for old certificates. A mesh that has
// this many keeps its authority until one of them expires.
const maxPrevious = 8

// RetiredRoot is a root that is trusted only for the certificates still in use.
type RetiredRoot struct {
	// Certificate is PEM.
	Certificate []byte `json:"certificate"`
	// Until is when the last certificate under it expires.
	Until time.Time `json:"until"`
	// Life is the longest life of certificates under it. 0, written by older versions, means
	// any life.
	Life time.Duration `json:"life,omitempty"`
}

func (p *RetiredRoot) life() time.Duration { return cmp.Or(p.Life, math.MaxInt64) }

// longest returns the longest life of certificates under the roots of this state.
func (a *Authority) longest() time.Duration {
	life := a.LeafLife
	for i := range a.Previous {
		life = max(life, a.Previous[i].life())
	}
	return life
}

// lasting returns the state in which certificates of a life are signed. It returns a if a is
// such a state or nil.
func (a *Authority) lasting(life time.Duration) *Authority {
	if a == nil || a.LeafLife >= life {
		return a
	}
	next := *a
	next.LeafLife = life
	return &next
}

// wanted returns the pair that the enabled backend of a mesh asks for, or nil if mutual TLS
// is off.
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
	chain, _ := pemtext.Certificates(certPEM)
	return &identity.KeyPair{Certificate: chain, Key: keyPEM}, nil
}

// trust returns what proxies must trust in this state. The order of the roots depends only
// on the roots, so that a step that trusts the same roots sends proxies nothing.
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
		for block := range pemtext.Blocks(bundle) {
			roots = append(roots, pemtext.Encode(block.Type, block.Bytes))
		}
	}
	slices.SortFunc(roots, bytes.Compare)
	roots = slices.CompactFunc(roots, bytes.Equal)
	return &mesh.Trust{Backend: a.Backend, Issuer: identity.Issuer(a.Current.Certificate), Roots: bytes.Join(roots, nil)}
}

// aim returns the state in which the mesh is moving to a pair. It returns a if a is such a
// state. A nil a means that the mesh has had no authority so far.
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

// sameAuthority compares certificates. If they match, the keys can differ only in their
// encoding.
func sameAuthority(a, b *identity.KeyPair) bool { return bytes.Equal(a.Certificate, b.Certificate) }

// heads reports whether a pair signs or will sign next.
func (a *Authority) heads(pair *identity.KeyPair) bool {
	return sameAuthority(&a.Current, pair) || a.Pending != nil && sameAuthority(a.Pending, pair)
}

// settling returns the phase after the last step that changes who signs.
func (a *Authority) settling() string {
	if len(a.Previous) > 0 {
		return PhaseSigning
	}
	return ""
}

// sign returns the state in which the pending authority signs. Certificates of the previous
// one are valid for at most its LeafLife. [identity.Backdate] covers those being signed at
// this moment.
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

// left returns the least time for which a root is still trusted.
func (p *RetiredRoot) left(clock Clock) time.Duration {
	return p.Until.Sub(clock.EarliestFor(p.life()))
}

// expire returns the state without the roots under which every certificate has expired. It
// returns a if there are none.
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
