package view

import (
	"iter"
	"maps"
)

// buckets is the number of parts of a table. A write copies one part and the array of parts,
// so with 10,000 entries it copies about 40 entries.
const buckets = 256

// table is an immutable map with string keys. A changed table shares all unchanged parts with
// its predecessor. The zero value is empty.
type table[V any] struct {
	parts *[buckets]map[string]V
	size  int
}

// bucketOf returns the bucket of a key, by FNV-1a. It need not resist chosen keys, because
// the control plane makes the keys.
func bucketOf(key string) int {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int((h ^ h>>8 ^ h>>16) % buckets)
}

func (t table[V]) get(key string) (V, bool) {
	if t.parts == nil {
		var none V
		return none, false
	}
	v, ok := t.parts[bucketOf(key)][key]
	return v, ok
}

// all yields the entries in no particular order.
func (t table[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if t.parts == nil {
			return
		}
		for _, part := range t.parts {
			for k, v := range part {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit collects changes to a table and copies each touched part once.
type edit[V any] struct {
	table[V]
	owned [buckets]bool
	begun bool
}

func editOf[V any](t table[V]) *edit[V] { return &edit[V]{table: t} }

func (e *edit[V]) own(key string) map[string]V {
	if !e.begun {
		parts := new([buckets]map[string]V)
		if e.parts != nil {
			*parts = *e.parts
		}
		e.parts, e.begun = parts, true
	}
	b := bucketOf(key)
	if !e.owned[b] {
		part := maps.Clone(e.parts[b])
		if part == nil {
			part = map[string]V{}
		}
		e.parts[b], e.owned[b] = part, true
	}
	return e.parts[b]
}

func (e *edit[V]) put(key string, v V) {
	if _, ok := e.get(key); !ok {
		e.size++
	}
	e.own(key)[key] = v
}

func (e *edit[V]) drop(key string) {
	if _, ok := e.get(key); ok {
		e.size--
		delete(e.own(key), key)
	}
}
