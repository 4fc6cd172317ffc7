package tokencache

import "sync/atomic"

const (
	// rows is how many buckets a subject has.
	rows = 4
	// Bounds of the number of buckets of a row, powers of two.
	minBuckets = 1 << 10
	maxBuckets = 1 << 17
)

// sketch keeps the highest floor of each subject, in a bucket of each of its rows,
// which it shares with others that differ from row to row (a count-min sketch,
// Cormode and Muthukrishnan 2005, of maxima). The floor of a subject is the lowest of
// its buckets, and never lower than its own: what is void stays void. It is higher
// only if others have raised all of its buckets. Then a record of an innocent token
// cannot be used once more, in L1 as in Redis; the next look-up yields a newer
// revision, and has that written to Redis. L1 must not go on with the older record:
// nobody would ask, and the token would be refused when only Redis is left.
//
// After N revocations that befalls a share of (1-e^(-N/buckets))^rows of the tokens,
// with all buckets 3 in 100,000 after 10,000.
type sketch struct {
	rows [rows][]atomic.Uint64
	mask uint64
}

// spot says where a subject has its buckets. In row k that is a + k*b: subjects that
// share the one of two rows differ in the others, unless they agree in all bits that
// are used.
type spot struct{ a, b uint64 }

func newSketch(buckets int) sketch {
	s := sketch{mask: uint64(buckets) - 1} //nolint:gosec // a power of two
	for k := range s.rows {
		s.rows[k] = make([]atomic.Uint64, buckets)
	}
	return s
}

func (s *sketch) bytes() int64 { return rows * 8 * int64(s.mask+1) } //nolint:gosec // bounded

// raise lifts the floor of a subject. Once it has returned no older record is
// admitted.
func (s *sketch) raise(at spot, revision uint64) {
	for k := range s.rows {
		raise(&s.rows[k][at.a&s.mask], revision)
		at.a += at.b
	}
}

// admits says whether a revision is not below the floor of a subject. The first bucket
// mostly tells.
func (s *sketch) admits(at spot, revision uint64) bool {
	for k := range s.rows {
		if revision >= s.rows[k][at.a&s.mask].Load() {
			return true
		}
		at.a += at.b
	}
	return false
}

func (s *sketch) clear() {
	for k := range s.rows {
		for i := range s.rows[k] {
			s.rows[k][i].Store(0)
		}
	}
}
