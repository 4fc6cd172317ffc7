package filtertest

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Tokens is a look-up over a fixed set of tokens. Expired tokens are unknown. Lookup does
// not allocate and is safe for concurrent use.
type Tokens struct {
	packed map[contract.Hash][]byte
	// otherwise answers for tokens that are not in the set.
	otherwise contract.Answer
}

// NewTokens returns a look-up that holds the tokens and gives the answer otherwise for any
// other. With Unknown it acts as an authority, with Miss as a cache, and with Unavailable as
// an authority that cannot be asked.
func NewTokens(otherwise contract.Answer, tokens ...Token) *Tokens {
	t := &Tokens{packed: make(map[contract.Hash][]byte), otherwise: otherwise}
	now := time.Now().UnixMilli()
	for i := range tokens {
		r := &tokens[i].Record
		if r.Expires == 0 || r.Expires > now {
			t.packed[tokens[i].Hash()] = r.Pack(nil)
		}
	}
	return t
}

// Lookup implements engine.Tokens.
func (t *Tokens) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	p, ok := t.packed[hash]
	if !ok {
		return 0, t.otherwise
	}
	return copy(dst, p), contract.Found
}
