package server

import (
	"slices"
	"sync"
	"weak"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxMoved is how many names a type looks at one by one; with more to look at it
// walks over all of them.
const maxMoved = 256

// still reports whether a type has nothing to do, without a walk.
func (t *typed) still() bool { return !t.walk && len(t.moved) == 0 }

// rest notes that a type has nothing to do. Secrets are few, and change apart
// from their table.
func (t *typed) rest() {
	t.walk, t.alone = t.url == resource.Secret, false
	clear(t.moved)
}

// again has everything looked at.
func (t *typed) again() {
	t.walk = true
	clear(t.moved)
}

// touch has names looked at.
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

// diffs remembers what differs between tables. The streams of a server go from
// one table to the next together, since proxies share tables, or the roots of them;
// each pair of those is looked at once. It keeps no table alive.
type diffs struct {
	mu    sync.Mutex
	pairs map[pair]func() []string
}

type pair struct{ from, to weak.Pointer[resource.Table] }

// maxPairs bounds the memory: what has been superseded is not asked for again.
const maxPairs = 256

// between lists the names whose bytes differ; more than maxMoved of them are cut
// short, for then everything is looked at anyway. It is not to be changed.
func (d *diffs) between(from, to *resource.Table) []string {
	names := d.roots(from.Root(), to.Root())
	if above := from.Above(to); len(above) > 0 {
		return slices.Concat(names, above)
	}
	return names
}

// roots is between for tables that are no layers.
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

// compare compares two tables at its first call, and lets go of them.
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
