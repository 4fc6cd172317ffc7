package server

import (
	"slices"
	"sync"
	"weak"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxMoved is the number of names of a type that are looked at one by one. If more have
// changed, the session walks over all names.
const maxMoved = 256

// still reports whether a type has nothing to do, without a walk.
func (t *typed) still() bool { return !t.walk && len(t.moved) == 0 }

// rest notes that a type has nothing to do. Secrets are always walked: they are few, and they
// change independently of their table.
func (t *typed) rest() {
	t.walk, t.alone = t.url == resource.Secret, false
	clear(t.moved)
}

// again makes the session look at every name.
func (t *typed) again() {
	t.walk = true
	clear(t.moved)
}

// touch makes the session look at these names.
func (t *typed) touch(names ...string) {
	if t.walk {
		return
	}
	if len(t.moved)+len(names) > maxMoved {
		t.again()
		return
	}
	for _, name := range names {
		t.moved[name] = struct{}{}
	}
}

// diffs caches the differences between tables. Proxies share tables, or the roots of tables,
// so the streams of a server go from one table to the next together, and each pair of roots is
// compared only once. The cache keeps no table alive.
type diffs struct {
	mu    sync.Mutex
	pairs map[pair]func() []string
}

type pair struct{ from, to weak.Pointer[resource.Table] }

// maxPairs limits the memory of the cache. Pairs of superseded tables are not asked for again.
const maxPairs = 256

// between lists the names whose bytes differ. It may stop after more than maxMoved names,
// because then the session looks at everything anyway. The caller must not change the list.
func (d *diffs) between(from, to *resource.Table) []string {
	names := d.roots(from.Root(), to.Root())
	if above := from.Above(to); len(above) > 0 {
		return slices.Concat(names, above)
	}
	return names
}

// roots does what between does, for tables that are not layers.
func (d *diffs) roots(from, to *resource.Table) []string {
	if from == to {
		return nil
	}
	key := pair{weak.Make(from), weak.Make(to)}
	d.mu.Lock()
	names := d.pairs[key]
	if names == nil {
		if d.pairs == nil || len(d.pairs) >= maxPairs {
			d.pairs = map[pair]func() []string{}
		}
		names = compare(from, to)
		d.pairs[key] = names
	}
	d.mu.Unlock()
	return names()
}

// compare returns a function that compares two tables at its first call and then releases
// them.
func compare(from, to *resource.Table) func() []string {
	var once sync.Once
	var names []string
	return func() []string {
		once.Do(func() {
			names = from.Differences(to, maxMoved+1)
			from, to = nil, nil
		})
		return names
	}
}
