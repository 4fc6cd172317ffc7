// Package seal encrypts secrets at rest and computes the digests under which
// unique secret values are indexed. Both keys are derived (HKDF, RFC 5869) from
// one root key of 32 bytes, which is the one thing an operator has to keep:
// without it the sealed part of a database is lost.
package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// RootSize is the size of a root key in bytes.
const RootSize = 32

// format is the first byte of everything sealed. It names the algorithm
// (XChaCha20-Poly1305, whose random 24-byte nonces never need counting), so that
// another one can follow without guessing.
const format = 1

// Labels separate what is derived from the root key.
const (
	labelSeal   = "meshgate seal v1"
	labelDigest = "meshgate digest v1"
)

// ErrOpen is returned for what was not sealed with this key and associated data.
var ErrOpen = errors.New("the sealed value was not made with this key, or was changed")

// Keys seals and digests. It is safe for concurrent use and never printed.
type Keys struct {
	aead   tink.AEAD
	digest []byte
}

// New derives keys from a root key.
func New(root []byte) (*Keys, error) {
	if len(root) != RootSize {
		return nil, fmt.Errorf("the key has %d bytes, not %d", len(root), RootSize)
	}
	sealing, err := hkdf.Key(sha256.New, root, nil, labelSeal, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the sealing key: %w", err)
	}
	digest, err := hkdf.Key(sha256.New, root, nil, labelDigest, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the digest key: %w", err)
	}
	aead, err := subtle.NewXChaCha20Poly1305(sealing)
	if err != nil {
		return nil, fmt.Errorf("preparing the sealing key: %w", err)
	}
	return &Keys{aead: aead, digest: digest}, nil
}

// Seal encrypts plain and binds it to the associated data, which is not stored
// and must be given again to open.
func (k *Keys) Seal(plain, associated []byte) ([]byte, error) {
	sealed, err := k.aead.Encrypt(plain, associated)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return append([]byte{format}, sealed...), nil
}

// Open decrypts what Seal returned. Any failure is [ErrOpen].
func (k *Keys) Open(sealed, associated []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != format {
		return nil, ErrOpen
	}
	plain, err := k.aead.Decrypt(sealed[1:], associated)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// Digest returns HMAC-SHA256 of a value under a label, in base64. Equal values
// under different labels have unrelated digests.
func (k *Keys) Digest(label, value string) string {
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
