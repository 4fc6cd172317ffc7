package identity

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"sync"

	"github.com/golang-jwt/jwt/v5"
)

// maxVerified bounds the signatures that are remembered, twice: those of a fleet whose
// proxies come back together.
const maxVerified = 16384

// verified remembers which signatures were found good. A proxy shows its token at each
// stream, and a stream has it checked more than once, but whether a key has made a
// signature never changes. Whether the key and the token still count is no part of it.
type verified struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

// remembering is a method of signing that asks another one once for each signature that
// is good.
type remembering struct {
	jwt.SigningMethod
	known *verified
}

// Verify implements [jwt.SigningMethod].
func (m remembering) Verify(text string, signature []byte, key any) error {
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return m.SigningMethod.Verify(text, signature, key)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(m.Alg()), public.N.Bytes(), binary.AppendVarint(nil, int64(public.E)), signature} {
		writePart(h, part)
	}
	_, _ = io.WriteString(h, text)
	id := [sha256.Size]byte(h.Sum(nil))
	if m.known.has(id) {
		return nil
	}
	if err := m.SigningMethod.Verify(text, signature, key); err != nil {
		return err
	}
	m.known.put(id)
	return nil
}

// writePart writes the length as well, so that no two lists of parts look the same.
func writePart(h hash.Hash, part []byte) {
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
	_, _ = h.Write(part)
}

func (v *verified) has(id [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, young := v.young[id]
	_, old := v.old[id]
	return young || old
}

// put remembers one. When there are too many, the older half goes.
func (v *verified) put(id [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.young == nil || len(v.young) >= maxVerified {
		v.young, v.old = map[[sha256.Size]byte]struct{}{}, v.young
	}
	v.young[id] = struct{}{}
}
