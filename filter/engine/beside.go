package engine

import "github.com/meshgate/meshgate/filter/contract"

// Found is what one look-up of a request has come to.
type Found struct {
	Hash   contract.Hash
	Answer contract.Answer
	// Packed is the record, for contract.Found and, if there is one, contract.Expired.
	Packed []byte
}

// Beside is a first level for a request that has looked up tokens already. Known answers
// count before those of Level: the request does not ask again, whatever the first level
// says by now.
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
