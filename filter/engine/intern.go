package engine

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// Interner maps chains to programs, so that the many routes with the same chain share one
// program. An update of a route table makes Envoy parse every route again; the interner then
// compiles only the chains that have changed. One interner serves the process. It is safe
// for concurrent use.
type Interner struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
}

type entry struct {
	key     [sha256.Size]byte
	program *Program
	refs    int // guarded by Interner.mu
}

// Ref is the hold of one user on an interned program.
type Ref struct {
	owner    *Interner
	entry    *entry
	released atomic.Bool
}

// NewInterner returns an empty interner.
func NewInterner() *Interner {
	return &Interner{entries: make(map[[sha256.Size]byte]*entry)}
}

// Acquire returns the program for the bytes of a chain. It does not fail, because Envoy
// would reject a whole route table for one bad route: a chain that cannot be used yields a
// program that refuses everything (see [Broken]). The bytes are not kept. The caller must
// call Release on the result.
func (in *Interner) Acquire(chain []byte) *Ref {
	key := sha256.Sum256(chain)
	if r := in.hold(key, nil); r != nil {
		return r
	}
	// Compiling happens outside the lock: two threads may do it twice, but none waits for
	// it.
	return in.hold(key, compileBytes(chain))
}

// Len returns the number of distinct chains held.
func (in *Interner) Len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.entries)
}

// hold takes a reference to the entry of key. If there is no entry, it creates one from
// program, or returns nil if program is nil.
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

// Program returns the program. After Release it stays usable for requests that are still in
// progress.
func (r *Ref) Program() *Program { return r.entry.program }

// Release gives up the hold. It may be called on any thread. Calls after the first one do
// nothing.
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
