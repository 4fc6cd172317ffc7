package audit

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
)

// keyring is what signs in these tests, the newest first. A rotation changes it.
type keyring []ed25519.PrivateKey

func (k *keyring) list() []ed25519.PrivateKey { return *k }

// rotate adds the key of a seed.
func (k *keyring) rotate(seed byte) {
	*k = append(keyring{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}, *k...)
}

// verifies reports whether a key of a set verifies a line of CEF.
func (set Keys) verifies(t *testing.T, line []byte) bool {
	t.Helper()
	unsigned, sig, _ := strings.Cut(string(line), " sig=")
	for _, key := range set.Keys {
		if verified(t, key, unsigned, sig) {
			return true
		}
	}
	return false
}

// TestRotatedKeys: the newest key signs from the next event on, and is the first of the published set. Events from
// before a rotation verify with the set as long as their key is in it; once the old keys are withdrawn, only new
// events do.
func TestRotatedKeys(t *testing.T) {
	var keys keyring
	keys.rotate(7)
	s := NewSigner(keys.list)
	before, set := origin.CEF(login(), s), s.Keys()
	keys.rotate(8)
	after := origin.CEF(login(), s)
	if !s.Keys().verifies(t, before) || !s.Keys().verifies(t, after) {
		t.Error("the published keys do not verify the events from before and after a rotation")
	}
	if got := s.Keys().Keys; len(got) != 2 || got[1] != set.Keys[0] || got[0] == got[1] {
		t.Errorf("%v is published", got)
	}
	if set.verifies(t, after) {
		t.Error("the old key still signs")
	}
	keys = keys[:1]
	if s.Keys().verifies(t, before) || !s.Keys().verifies(t, after) {
		t.Error("after the withdrawal, the set verifies something else than the new events")
	}
}
