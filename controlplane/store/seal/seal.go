// Package seal encrypts secrets at rest and computes the digests under which unique secret
// values are indexed. Both keys are derived (HKDF, RFC 5869) from one root key of 32 bytes.
// The operator has to keep only the root key: without it, the sealed part of a database is
// lost. A [Ring] holds the root key in use, and older ones that open what was sealed before.
package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// RootSize is the size of a root key in bytes.
const RootSize = 32

// format is the first byte of every sealed value. It names the algorithm (XChaCha20-Poly1305,
// whose random 24-byte nonces need no counter), so that another algorithm can follow.
const format = 1

// Labels for the values that are derived from the root key.
const (
	labelSeal   = "meshgate seal v1"
	labelDigest = "meshgate digest v1"
	labelID     = "meshgate key id v1"
)

// ErrOpen is returned for a value that was not sealed with this key and associated data.
var ErrOpen = errors.New("the sealed value was not made with this key, or was changed")

// Keys seals with one key, and opens what this key or an older one has sealed. It is safe for
// concurrent use, and never prints its keys.
type Keys struct {
	// keys can open; the first one seals.
	keys []key
}

// key holds what is derived from one root key.
type key struct {
	id     string
	aead   tink.AEAD
	digest []byte
}

// New derives keys from root keys. The first root key seals.
func New(roots ...[]byte) (*Keys, error) {
	if len(roots) == 0 {
		return nil, errors.New("there is no key")
	}
	k := &Keys{}
	for _, root := range roots {
		derived, err := derive(root)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, derived)
	}
	return k, nil
}

// derive makes the keys of one root key.
func derive(root []byte) (k key, err error) {
	if len(root) != RootSize {
		return k, fmt.Errorf("the key has %d bytes, not %d", len(root), RootSize)
	}
	sealing, err := hkdf.Key(sha256.New, root, nil, labelSeal, 32)
	if err != nil {
		return k, fmt.Errorf("deriving the sealing key: %w", err)
	}
	if k.digest, err = hkdf.Key(sha256.New, root, nil, labelDigest, 32); err != nil {
		return k, fmt.Errorf("deriving the digest key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, root, nil, labelID, 8)
	if err != nil {
		return k, fmt.Errorf("deriving the name of the key: %w", err)
	}
	k.id = hex.EncodeToString(id)
	if k.aead, err = subtle.NewXChaCha20Poly1305(sealing); err != nil {
		return k, fmt.Errorf("preparing the sealing key: %w", err)
	}
	return k, nil
}

// ID returns an id of the key that seals. It is derived from the key and reveals nothing
// about it.
func (k *Keys) ID() string { return k.keys[0].id }

// IDs returns the ids of all keys. The first is that of the key that seals.
func (k *Keys) IDs() []string {
	out := make([]string, len(k.keys))
	for i := range k.keys {
		out[i] = k.keys[i].id
	}
	return out
}

// Seal encrypts plain and binds it to the associated data. The data is not stored, and Open
// needs it again.
func (k *Keys) Seal(plain, associated []byte) ([]byte, error) {
	sealed, err := k.keys[0].aead.Encrypt(plain, associated)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return append([]byte{format}, sealed...), nil
}

// Open decrypts what Seal returned, with this key or an older one. Any failure is
// [ErrOpen].
func (k *Keys) Open(sealed, associated []byte) ([]byte, error) {
	for i := range k.keys {
		if plain, ok := k.keys[i].open(sealed, associated); ok {
			return plain, nil
		}
	}
	return nil, ErrOpen
}

// Current reports whether a value was sealed with the key that seals now.
func (k *Keys) Current(sealed, associated []byte) bool {
	_, ok := k.keys[0].open(sealed, associated)
	return ok
}

func (k *key) open(sealed, associated []byte) (plain []byte, ok bool) {
	if len(sealed) == 0 || sealed[0] != format {
		return nil, false
	}
	plain, err := k.aead.Decrypt(sealed[1:], associated)
	return plain, err == nil
}

// Digest returns HMAC-SHA256 of a value under a label, in base64, with the key that seals.
// Equal values under different labels have unrelated digests.
func (k *Keys) Digest(label, value string) string { return k.keys[0].of(label, value) }

// Digests returns the digest by each key; the first one is Digest. The others find values
// that were indexed before a rotation.
func (k *Keys) Digests(label, value string) []string {
	out := make([]string, len(k.keys))
	for i := range k.keys {
		out[i] = k.keys[i].of(label, value)
	}
	return out
}

func (k *key) of(label, value string) string {
	mac := hmac.New(sha256.New, k.digest)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(label))))
	mac.Write([]byte(label))
	mac.Write([]byte(value))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// String keeps keys out of logs.
func (k *Keys) String() string { return "[redacted]" }

// GoString keeps keys out of logs.
func (k *Keys) GoString() string { return "[redacted]" }
