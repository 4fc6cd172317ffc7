package identity

import (
	"crypto/rsa"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxRings bounds the meshes whose keys are remembered.
const maxRings = 1024

// ring is what a mesh has in one revision of the store: keys that were found, and which
// tokens are revoked. Proxies that come together are judged by the same revision, and each
// read of a secret decrypts and decodes it. What is not there is not remembered: strangers
// choose the serials that they ask for.
type ring struct {
	revision uint64
	keys     map[string]ringKey // by serial
	revoked  map[string]struct{}
	read     bool // revoked
}

// ringKey is a key that was found, and what is known of it if it was withdrawn.
type ringKey struct {
	key       *rsa.PublicKey
	withdrawn *withdrawnKey
}

// ring returns what is remembered of a mesh in the revision of a reader; nil if that is
// nothing. t.mu is held.
func (t *DataplaneTokens) ring(r store.Reader, meshName string) *ring {
	if k := t.rings[meshName]; k != nil && k.revision == r.Revision() {
		return k
	}
	return nil
}

// note remembers something of a mesh in the revision of a reader, unless that is older
// than what is remembered.
func (t *DataplaneTokens) note(r store.Reader, meshName string, add func(*ring)) {
	revision := r.Revision()
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.rings[meshName]
	if k == nil || k.revision < revision {
		if k == nil && len(t.rings) >= maxRings {
			clear(t.rings)
		}
		k = &ring{revision: revision, keys: map[string]ringKey{}}
		t.rings[meshName] = k
	}
	if k.revision == revision {
		add(k)
	}
}

// remembered returns a key that was found in the same revision.
func (t *DataplaneTokens) remembered(r store.Reader, meshName, serial string) (k ringKey, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ring := t.ring(r, meshName); ring != nil {
		k, ok = ring.keys[serial]
	}
	return k, ok
}

// isRevoked looks a token up among those of its mesh that were revoked.
func (t *DataplaneTokens) isRevoked(r store.Reader, meshName, id string) (bool, error) {
	t.mu.Lock()
	known := t.ring(r, meshName)
	read := known != nil && known.read
	found := false
	if read {
		_, found = known.revoked[id]
	}
	t.mu.Unlock()
	if read {
		return found, nil
	}
	ids, err := revokedOf(r, mesh.Secrets, meshName, mesh.TokenRevocations+meshName)
	if err != nil {
		return false, err
	}
	revoked := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		revoked[id] = struct{}{}
	}
	t.note(r, meshName, func(k *ring) { k.revoked, k.read = revoked, true })
	_, found = revoked[id]
	return found, nil
}
