package tokencache

import (
	"time"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
)

// negativeWays is the associativity of the table of unknown tokens. Clients choose these
// hashes, so a look-up must cost the same for any choice: a fixed number of places and no
// probing.
const negativeWays = 8

// negative remembers that a token was unknown. Unknown tokens have their own memory, so that
// no number of them evicts a good record.
type negative struct {
	hash     contract.Hash
	revision uint64
	// until is the monotonic time at which the entry is forgotten; 0 means that the place is
	// empty.
	until time.Duration
	// why is one of the answers that reject a token.
	why contract.Answer
}

const negativeSetBytes = negativeWays * int(unsafe.Sizeof(negative{}))

// negativeSet returns the places of a hash. The caller holds mu.
func (s *shard) negativeSet(hash *contract.Hash) []negative {
	sets := len(s.negatives) / negativeWays
	i := (int(tagOf(hash)) & (sets - 1)) * negativeWays //nolint:gosec // a tag has 31 bits
	return s.negatives[i : i+negativeWays]
}

// unknown returns the remembered rejection of a hash if the global floor still allows its
// revision, or else Miss.
func (s *shard) unknown(hash *contract.Hash, mono time.Duration, global uint64) contract.Answer {
	set := s.negativeSet(hash)
	for i := range set {
		if n := &set[i]; n.until > mono && n.hash == *hash && n.revision >= global {
			return n.why
		}
	}
	return contract.Miss
}

func (s *shard) setUnknown(hash *contract.Hash, why contract.Answer, revision uint64, until, mono time.Duration) {
	set := s.negativeSet(hash)
	victim := &set[0]
	for i := range set {
		n := &set[i]
		if n.until != 0 && n.hash == *hash {
			victim = n
			break
		}
		if n.until <= mono || n.until < victim.until {
			victim = n
		}
	}
	*victim = negative{hash: *hash, revision: revision, until: until, why: why}
}

func (s *shard) forgetUnknown(hash *contract.Hash) {
	s.forgetUnknownBelow(hash, ^uint64(0))
}

// forgetUnknownBelow empties the places where a hash was unknown before revision, because
// the token may exist since then.
func (s *shard) forgetUnknownBelow(hash *contract.Hash, revision uint64) {
	set := s.negativeSet(hash)
	for i := range set {
		if set[i].hash == *hash && set[i].revision < revision {
			set[i] = negative{}
		}
	}
}
