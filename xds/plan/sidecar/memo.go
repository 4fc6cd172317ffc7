package sidecar

import (
	"github.com/meshgate/meshgate/xds/plan"
)

// memo holds the cells of one kind. A sweep forgets those that nothing uses any more. It comes
// when a memory has more than twice as many cells as the last one left there. So sweeps are
// rare beside the building of cells.
type memo[K comparable, V any] struct {
	cells map[K]*cell[V]
	// kept is how many cells the last sweep left.
	kept int
	made uint64
}

type cell[V any] struct {
	value V
	err   error
	// asked is the last round that asked for the cell: a plan or a sweep.
	asked uint64
}

func newMemo[K comparable, V any]() *memo[K, V] { return &memo[K, V]{cells: map[K]*cell[V]{}} }

// of returns the value of a key and builds it the first time. A panic of the builder is an
// error of this cell only.
func of[K comparable, V any](m *memo[K, V], round uint64, key K, build func(K) (V, error)) (V, error) {
	c := m.cells[key]
	if c == nil {
		c = &cell[V]{}
		c.value, c.err = plan.Protect(key, build)
		m.cells[key] = c
		m.made++
	}
	c.asked = round
	return c.value, c.err
}

// guard turns a panic of some work into an error.
func guard(work func()) error {
	_, err := plan.Protect(struct{}{}, func(struct{}) (struct{}, error) {
		work()
		return struct{}{}, nil
	})
	return err
}

// crowded reports whether a sweep would be worthwhile.
func (m *memo[K, V]) crowded() bool { return len(m.cells) > 2*m.kept+1024 }

// sweep forgets the cells that were last asked for before a round.
func (m *memo[K, V]) sweep(since uint64) {
	for k, c := range m.cells {
		if c.asked < since {
			delete(m.cells, k)
		}
	}
	m.kept = len(m.cells)
}
