package engine

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// Interner maps chains to programs, so that the many routes with one chain share
// one program, and so that an update of a route table, which makes Envoy parse
// every route again, compiles only what has changed. One interner serves the
// process. It is safe for concurrent use.
type Interner struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
}

type entry struct {
	key     [sha256.Size]byte
	program *Program
	refs    int // guarded by Interner.mu
}

// Ref is one user's hold on an interned program.
type Ref struct {
	owner    *Interner
	entry    *entry
	released atomic.Bool
}

// NewInterner returns an empty interner.
func NewInterner() *Interner {
	return &Interner{entries: make(map[[sha256.Size]byte]*entry)}
}

// Acquire returns the program for the bytes of a chain. It does not fail: a chain
// that cannot be used yields a program that refuses everything (see [Broken]),
// because Envoy would reject a whole route table for one bad route. The bytes are
// not kept. The caller must Release what it gets.
func (in *Interner) Acquire(chain []byte) *Ref {
	key := sha256.Sum256(chain)
	if r := in.hold(key, nil); r != nil {
		return r
	}
	// Compiled outside the lock: two threads may do it twice, none waits for it.
	return in.hold(key, compileBytes(chain))
}

// Len returns the number of distinct chains held.
func (in *Interner) Len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.entries)
}

// hold takes a reference to the entry of key, which it makes of program if there
// is none; without a program it then returns nil.
func (in *Interner) hold(key [sha256.Size]byte, program *Program) *Ref {
	in.mu.Lock()
	defer in.mu.Unlock()
	e := in.entries[key]
	if e == nil {
		if program == nil {
			return nil
		}
		e = &entry{key: key, program: program}
		in.entries[key] = e
	}
	e.refs++
	return &Ref{owner: in, entry: e}
}

func compileBytes(chain []byte) *Program {
	c, err := contract.ParseChain(chain)
	if err != nil {
		return Broken(err.Error())
	}
	p, err := Compile(c)
	if err != nil {
		return Broken(err.Error())
	}
	return p
}

// Program returns the program. It stays usable after Release for requests that
// are still under way.
func (r *Ref) Program() *Program { return r.entry.program }

// Release gives the hold up. It may be called on any thread; calls after the
// first do nothing.
func (r *Ref) Release() {
	if r.released.Swap(true) {
		return
	}
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	if r.entry.refs--; r.entry.refs == 0 {
		delete(r.owner.entries, r.entry.key)
	}
}
