package tokencache

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// verifiedPlaces bounds the records remembered as verified: 128 KiB.
const verifiedPlaces = 4096

// verifier checks signatures of records that come from Redis. A record is
// verified when it fills L1, never on hits. While the filter has no lease every
// request reads Redis, so digests of records that were verified are remembered:
// the same bytes under the same token are not verified twice.
type verifier struct {
	keys []contract.RecordKey

	mu   sync.Mutex
	seen [][sha256.Size]byte // by a part of the digest; nil until the first
}

// genuine says whether a known key has signed data, which is of that record, for this
// token. The control plane of the record is a part of data.
func (v *verifier) genuine(hash contract.Hash, r *contract.Record, data []byte) bool {
	h := sha256.New()
	h.Write(hash[:])
	h.Write(data)
	var digest [sha256.Size]byte
	h.Sum(digest[:0])
	place := binary.LittleEndian.Uint32(digest[:]) % verifiedPlaces
	v.mu.Lock()
	known := v.seen != nil && v.seen[place] == digest
	v.mu.Unlock()
	if known {
		return true
	}
	if contract.Verify(v.keys, r.Plane, hash, data) != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = make([][sha256.Size]byte, verifiedPlaces)
	}
	v.seen[place] = digest
	return true
}
