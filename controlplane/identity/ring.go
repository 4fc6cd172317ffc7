package identity

import (
	"crypto/rsa"

	"github.com/meshgate/meshgate/controlplane/store"
)

// maxRings bounds the series whose keys are remembered.
const maxRings = 1024

// ring holds what is known of a series in one revision of the store: the keys that were found,
// and which tokens are revoked. Reading a secret means decrypting and decoding it, and
// proxies that come together are judged by the same revision, so each secret is read once. A
// missing key is not remembered, because strangers choose the serials that they ask for.
type ring struct {
	revision uint64
	keys     map[string]ringKey // by serial
	revoked  map[string]struct{}
	read     bool // revoked
}

// ringKey is a key that was found, with its withdrawal if it was withdrawn.
type ringKey struct {
	key       *rsa.PublicKey
	withdrawn *withdrawnKey
}

// ring returns what is remembered of a series in the revision of a reader, or nil. The caller
// holds t.mu.
func (t *secretKeys) ring(r store.Reader, s series) *ring {
	if k := t.rings[s]; k != nil && k.revision == r.Revision() {
		return k
	}
	return nil
}

// note remembers something about a series in the revision of a reader, unless something newer
// is remembered.
func (t *secretKeys) note(r store.Reader, s series, add func(*ring)) {
	revision := r.Revision()
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.rings[s]
	if k == nil || k.revision < revision {
		if k == nil && len(t.rings) >= maxRings {
			clear(t.rings)
		}
		k = &ring{revision: revision, keys: map[string]ringKey{}}
		t.rings[s] = k
	}
	if k.revision == revision {
		add(k)
	}
}

// remembered returns a key that was found in the same revision.
func (t *secretKeys) remembered(r store.Reader, s series, serial string) (k ringKey, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ring := t.ring(r, s); ring != nil {
		k, ok = ring.keys[serial]
	}
	return k, ok
}

// isRevoked reports whether a token of a series is revoked.
func (t *secretKeys) isRevoked(r store.Reader, s series, id string) (bool, error) {
	t.mu.Lock()
	known := t.ring(r, s)
	read := known != nil && known.read
	found := false
	if read {
		_, found = known.revoked[id]
	}
	t.mu.Unlock()
	if read {
		return found, nil
	}
	ids, err := revokedOf(r, s.kind, s.scope, s.revoked)
	if err != nil {
		return false, err
	}
	revoked := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		revoked[id] = struct{}{}
	}
	t.note(r, s, func(k *ring) { k.revoked, k.read = revoked, true })
	_, found = revoked[id]
	return found, nil
}
