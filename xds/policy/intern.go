package policy

import (
	"hash/maphash"
	"slices"
	"weak"

	"github.com/meshgate/meshgate/controlplane/view"
)

// Interner makes equal selections, and equal choices, one pointer for as long as somebody
// holds it, so that they can be compared and be parts of keys. It holds none itself, so unused
// ones are collected. One goroutine uses it. The zero value is ready.
type Interner struct {
	seed       maphash.Seed
	selections pool[Selection]
	choices    pool[Choices]
}

// Choices are what every policy of a list chose for one cell, by the index of the policy. They
// are interned: equal choices are one pointer, however many policies there are. Nil means that
// no policy chose anything.
type Choices struct{ of []*Selection }

// At returns what the policy at an index of the list chose, or nil.
func (c *Choices) At(i int) *Selection {
	if c == nil || i >= len(c.of) {
		return nil
	}
	return c.of[i]
}

// Selection returns the selection of policies, best first, with facts, which must be
// comparable. It is nil if there are no policies. Policies are compared by pointer. The caller
// keeps the slice.
func (i *Interner) Selection(ps []*view.Policy, facts any) *Selection {
	if len(ps) == 0 {
		return nil
	}
	h := i.hash(facts) // panics on facts that are not comparable
	for _, p := range ps {
		h = h*factor ^ maphash.Comparable(i.seed, p)
	}
	for _, w := range i.selections.buckets[h] {
		if s := w.Value(); s != nil && s.Facts == facts && slices.Equal(s.Policies, ps) {
			return s
		}
	}
	return i.selections.add(h, &Selection{Policies: slices.Clone(ps), Facts: facts})
}

// Choices returns the choices of a list of policies, or nil if none chose anything. The caller
// keeps the slice.
func (i *Interner) Choices(of []*Selection) *Choices {
	last := len(of)
	for last > 0 && of[last-1] == nil {
		last--
	}
	if of = of[:last]; last == 0 {
		return nil
	}
	h := i.hash(nil)
	for _, s := range of {
		h = h*factor ^ maphash.Comparable(i.seed, s)
	}
	for _, w := range i.choices.buckets[h] {
		if c := w.Value(); c != nil && slices.Equal(c.of, of) {
			return c
		}
	}
	return i.choices.add(h, &Choices{slices.Clone(of)})
}

// factor spreads hashes.
const factor = 0x9e3779b97f4a7c15

// hash starts a hash.
func (i *Interner) hash(first any) uint64 {
	if i.seed == (maphash.Seed{}) {
		i.seed = maphash.MakeSeed()
	}
	return maphash.Comparable(i.seed, first)
}

// pool holds values by their hashes, weakly.
type pool[T any] struct {
	buckets map[uint64][]weak.Pointer[T]
	// entries counts weak pointers. At limit, the dead ones are swept out, and the limit
	// becomes twice the rest, so that a sweep costs little per entry.
	entries, limit int
}

// minLimit is the number of entries below which there is no sweep.
const minLimit = 1024

func (p *pool[T]) add(h uint64, v *T) *T {
	if p.buckets == nil {
		p.buckets, p.limit = map[uint64][]weak.Pointer[T]{}, minLimit
	}
	if p.entries >= p.limit {
		p.sweep()
	}
	p.buckets[h] = append(p.buckets[h], weak.Make(v))
	p.entries++
	return v
}

func (p *pool[T]) sweep() {
	p.entries = 0
	for h, bucket := range p.buckets {
		live := slices.DeleteFunc(bucket, func(w weak.Pointer[T]) bool { return w.Value() == nil })
		p.entries += len(live)
		if len(live) == 0 {
			delete(p.buckets, h)
		} else {
			p.buckets[h] = live
		}
	}
	p.limit = max(minLimit, 2*p.entries)
}
