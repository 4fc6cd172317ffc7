package policy

import (
	"hash/maphash"
	"slices"
	"weak"

	"github.com/meshgate/meshgate/controlplane/view"
)

// Interner makes equal selections one pointer for as long as somebody holds it,
// so that selections can be compared and be parts of keys. It holds none itself:
// a selection that nobody uses any more is collected. One goroutine uses it. The
// zero value is ready.
type Interner struct {
	seed    maphash.Seed
	buckets map[uint64][]weak.Pointer[Selection]
	// entries counts weak pointers; at limit the dead ones are swept out, and
	// the limit becomes twice what is left, so that a sweep costs little per entry.
	entries, limit int
}

// minLimit is the number of entries below which nothing is swept.
const minLimit = 1024

// Selection returns the selection of policies, best first, with facts, which
// must be comparable. It is nil if there are no policies. Policies are compared
// by pointer. The slice stays the caller's.
func (i *Interner) Selection(ps []*view.Policy, facts any) *Selection {
	if len(ps) == 0 {
		return nil
	}
	if i.buckets == nil {
		i.seed, i.buckets, i.limit = maphash.MakeSeed(), map[uint64][]weak.Pointer[Selection]{}, minLimit
	}
	h := i.hash(ps, facts)
	for _, w := range i.buckets[h] {
		if s := w.Value(); s != nil && s.Facts == facts && slices.Equal(s.Policies, ps) {
			return s
		}
	}
	if i.entries >= i.limit {
		i.sweep()
	}
	s := &Selection{Policies: slices.Clone(ps), Facts: facts}
	i.buckets[h] = append(i.buckets[h], weak.Make(s))
	i.entries++
	return s
}

// hash panics on facts that are not comparable.
func (i *Interner) hash(ps []*view.Policy, facts any) uint64 {
	h := maphash.Comparable(i.seed, facts)
	for _, p := range ps {
		h = h*0x9e3779b97f4a7c15 ^ maphash.Comparable(i.seed, p)
	}
	return h
}

func (i *Interner) sweep() {
	i.entries = 0
	for h, bucket := range i.buckets {
		live := slices.DeleteFunc(bucket, func(w weak.Pointer[Selection]) bool { return w.Value() == nil })
		i.entries += len(live)
		if len(live) == 0 {
			delete(i.buckets, h)
		} else {
			i.buckets[h] = live
		}
	}
	i.limit = max(minLimit, 2*i.entries)
}
