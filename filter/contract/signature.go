package contract

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// Redis is not trusted: whoever can write there must not be able to make a token
// good. So a record there is signed by the control plane (Ed25519, RFC 8032).
// What stands under a token key is one line "meshgate1 <key id> <signature>", the
// signature in base64 (RFC 4648 section 5, without padding), and behind its line
// feed the record as JSON. Signed are a constant, the key it stands under, which names
// the control plane, and the JSON, which holds version, epoch, revision and expiry: a
// record is good for nothing under another key.

// Signatures.
const (
	signedPrefix = "meshgate1 "
	signedDomain = "meshgate record 1\x00"
	keyIDLen     = 16
	signatureLen = 86 // base64 of ed25519.SignatureSize
	signedHead   = len(signedPrefix) + keyIDLen + 1 + signatureLen + 1
	// MaxSigned bounds what stands under a token key in bytes.
	MaxSigned = MaxRecord + signedHead
	// MaxRecordKeys bounds a set of keys.
	MaxRecordKeys = 16
)

// ErrForeign says that a record is not signed by a key that is known.
var ErrForeign = errors.New("the record is not signed by a known key")

// RecordKey is the public half of a key that signs records.
type RecordKey struct {
	// ID is [RecordKeyID] of the key.
	ID string `json:"id"`
	// Key has the 32 bytes of RFC 8032, in base64 in JSON.
	Key []byte `json:"key"`
}

// RecordKeyID names a public key: the first half of its SHA-256, in hex, cut.
func RecordKeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:keyIDLen/2])
}

// NewRecordKey describes a public key.
func NewRecordKey(public ed25519.PublicKey) RecordKey {
	return RecordKey{ID: RecordKeyID(public), Key: public}
}

func checkRecordKeys(keys []RecordKey) error {
	if len(keys) > MaxRecordKeys {
		return fmt.Errorf("more than %d record keys", MaxRecordKeys)
	}
	for i := range keys {
		if len(keys[i].Key) != ed25519.PublicKeySize || keys[i].ID != RecordKeyID(keys[i].Key) {
			return fmt.Errorf("record_keys[%d] is not a public key with its id", i)
		}
	}
	return nil
}

// message is what is signed.
func signedMessage(scope string, hash Hash, body []byte) []byte {
	key := RedisRecordKey(scope, hash)
	m := make([]byte, 0, len(signedDomain)+len(key)+1+len(body))
	m = append(append(append(m, signedDomain...), key...), 0)
	return append(m, body...)
}

// Sign encodes a record as it stands in Redis under a token hash and its control plane.
func (r *Record) Sign(hash Hash, key ed25519.PrivateKey) ([]byte, error) {
	body, err := r.Marshal()
	if err != nil {
		return nil, err
	}
	id := RecordKeyID(key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // of an ed25519 key it is one
	b := make([]byte, 0, signedHead+len(body))
	b = append(append(append(b, signedPrefix...), id...), ' ')
	b = base64.RawURLEncoding.AppendEncode(b, ed25519.Sign(key, signedMessage(r.Plane, hash, body)))
	return append(append(b, '\n'), body...), nil
}

// Unsigned returns the JSON of what [Record.Sign] made, without looking at the
// signature, or data itself if it is not of that form.
func Unsigned(data []byte) []byte {
	if len(data) < signedHead || !bytes.HasPrefix(data, []byte(signedPrefix)) || data[signedHead-1] != '\n' {
		return data
	}
	return data[signedHead:]
}

// Verify checks that a key of the set has signed data for this token hash of a control
// plane; any failure is [ErrForeign].
func Verify(keys []RecordKey, scope string, hash Hash, data []byte) error {
	body := Unsigned(data)
	if len(body) == len(data) || len(data) > MaxSigned {
		return ErrForeign
	}
	id, signature, ok := bytes.Cut(data[len(signedPrefix):signedHead-1], []byte{' '})
	if !ok || len(id) != keyIDLen {
		return ErrForeign
	}
	var raw [ed25519.SignatureSize]byte
	if n, err := base64.RawURLEncoding.Strict().Decode(raw[:], signature); err != nil || n != len(raw) {
		return ErrForeign
	}
	for i := range keys {
		if keys[i].ID == string(id) && ed25519.Verify(keys[i].Key, signedMessage(scope, hash, body), raw[:]) {
			return nil
		}
	}
	return ErrForeign
}
