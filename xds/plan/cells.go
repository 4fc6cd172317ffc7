package plan

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
)

// Failure describes a cell that could not be built, or only in part.
type Failure struct {
	// Cell names what failed, such as "route <id>".
	Cell string
	// Err is the cause. It is for operators.
	Err error
	// Kept says that the last good version is still in use.
	Kept bool
	// Awaited says that everything was built as configured, but something else is missing,
	// perhaps only for now.
	Awaited bool
	// By are the policies that it may be about; see policy.Policy.Named. It is empty if nobody
	// knows.
	By []string
}

// Cells memoises the cells of one plan by name. One goroutine uses it. Cells that a plan does
// not ask for are forgotten at its end.
type Cells struct {
	slots    map[string]*slot
	round    uint64
	failures []Failure
}

type slot struct {
	key   any
	value any
	good  bool
	err   error
	round uint64
}

// NewCells returns an empty memory.
func NewCells() *Cells { return &Cells{slots: map[string]*slot{}} }

// Copy returns a memory of the same cells. What is planned with one changes nothing in the other:
// values are never changed, only replaced.
func (c *Cells) Copy() *Cells {
	out := &Cells{slots: make(map[string]*slot, len(c.slots)), round: c.round}
	for name, s := range c.slots {
		same := *s
		out.slots[name] = &same
	}
	return out
}

// Begin starts a plan.
func (c *Cells) Begin() {
	c.round++
	c.failures = nil
}

// End forgets the cells that were not asked for since Begin. It returns the failures, ordered
// by cell.
func (c *Cells) End() []Failure {
	for name, s := range c.slots {
		if s.round != c.round {
			delete(c.slots, name)
		}
	}
	slices.SortStableFunc(c.failures, func(a, b Failure) int { return cmp.Compare(a.Cell, b.Cell) })
	return c.failures
}

// Report records the failure of a part of a cell.
func (c *Cells) Report(f Failure) { c.failures = append(c.failures, f) }

// Failed is the error of a builder that panicked.
type Failed struct {
	Value any
	Stack []byte
}

// Error implements error, without the stack.
func (f *Failed) Error() string { return fmt.Sprintf("builder panicked: %v", f.Value) }

// Cell returns the value of a named cell for a key. It builds the value only if the key
// differs from the last one. build must be a pure function of the key. If building fails or
// panics, Cell keeps the last good value and reports the failure; ok is false if there never
// was one.
func Cell[K comparable, V any](c *Cells, name string, key K, build func(K) (V, error)) (value V, ok bool) {
	return CellWhile(c, name, key, build, func(V) bool { return true })
}

// CellWhile does what Cell does, for values that protect something. If building fails, it
// keeps the last good value only while still accepts it. A value that is less strict than the
// one asked for is dropped.
func CellWhile[K comparable, V any](c *Cells, name string, key K, build func(K) (V, error), still func(V) bool) (value V, ok bool) {
	s := c.slots[name]
	if s == nil {
		s = &slot{}
		c.slots[name] = s
	}
	s.round = c.round
	if s.key != any(key) {
		v, err := Protect(key, build)
		s.key, s.err = key, err
		if err == nil {
			s.value, s.good = v, true
		}
	}
	if s.good {
		value, ok = s.value.(V)
	}
	if s.err == nil {
		return value, ok
	}
	if ok && !still(value) {
		var none V
		value, ok = none, false
	}
	c.Report(Failure{Cell: name, Err: s.err, Kept: ok})
	return value, ok
}

// Protect builds a value and turns a panic into an error.
func Protect[K comparable, V any](key K, build func(K) (V, error)) (v V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Failed{Value: p, Stack: debug.Stack()}
		}
	}()
	return build(key)
}
