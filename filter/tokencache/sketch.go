package tokencache

import "sync/atomic"

const (
	// rows is the number of buckets of a subject.
	rows = 4
	// The number of buckets of a row is a power of two between these bounds.
	minBuckets = 1 << 10
	maxBuckets = 1 << 17
)

// sketch keeps the highest floor of each subject in one bucket of each row (a count-min
// sketch, Cormode and Muthukrishnan 2005, of maxima). A subject shares its buckets with
// others, with different ones in each row. Its floor is the lowest of its buckets, and never
// lower than its own: a void record stays void. The floor is too high only if others have
// raised all of its buckets. A record of such an innocent token is no longer usable, in L1
// as in Redis. The next look-up gets a newer revision and has it written to Redis. L1 must
// not continue with the older record: then nobody would ask, and the token would be refused
// when only Redis is left.
//
// After N revocations this happens to a share of (1-e^(-N/buckets))^rows of the tokens: with
// maxBuckets, 3 in 100,000 after 10,000.
type sketch struct {
	rows [rows][]atomic.Uint64
	mask uint64
}

// spot says where a subject has its buckets: in row k at a + k*b. Subjects that share a
// bucket in one row have different ones in the others, unless all their used bits agree.
type spot struct{ a, b uint64 }

func newSketch(buckets int) sketch {
	s := sketch{mask: uint64(buckets) - 1} //nolint:gosec // a power of two
	for k := range s.rows {
		s.rows[k] = make([]atomic.Uint64, buckets)
	}
	return s
}

func (s *sketch) bytes() int64 { return rows * 8 * int64(s.mask+1) } //nolint:gosec // bounded

// raise lifts the floor of a subject. Once it has returned, no older record is admitted.
func (s *sketch) raise(at spot, revision uint64) {
	for k := range s.rows {
		raise(&s.rows[k][at.a&s.mask], revision)
		at.a += at.b
	}
}

// admits reports whether a revision is not below the floor of a subject. The first bucket
// usually decides.
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
