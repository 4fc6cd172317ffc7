package engine

import "github.com/meshgate/meshgate/filter/contract"

// Found is the result of one look-up of a request.
type Found struct {
	Hash   contract.Hash
	Answer contract.Answer
	// Packed is the record, for contract.Found and, if it is still stored, for
	// contract.Expired.
	Packed []byte
}

// Beside is a first level for a request that has already looked up tokens. Its known answers
// take precedence over those of Level, so the request never asks twice, even if the first
// level would answer differently by now.
type Beside struct {
	Known []Found
	Level Tokens
}

// Lookup implements [Tokens]. A known answer that makes no sense counts as Unavailable.
func (b *Beside) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	for i := range b.Known {
		k := &b.Known[i]
		if k.Hash != hash {
			continue
		}
		switch k.Answer {
		case contract.Found, contract.Unknown, contract.Expired, contract.Revoked:
			return copy(dst, k.Packed), k.Answer
		default:
			return 0, contract.Unavailable
		}
	}
	return b.Level.Lookup(hash, dst)
}
