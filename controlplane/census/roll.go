package census

import (
	"slices"
	"strings"
	"sync"
)

// maxBlock is the number of dataplanes at which a block is split.
const maxBlock = 256

// roll holds the dataplanes of a mesh, sorted by name, in blocks of which none is empty. So a change
// touches one block, and a search passes over blocks in which nothing is wanted.
type roll struct {
	blocks []*block
	// edition grows whenever somebody gets the blocks to read. What is of an older edition never
	// changes again; a change copies it.
	edition, own uint64
}

// block is a part of a roll.
type block struct {
	rows    []*Listed
	having  []having
	edition uint64
	// joined are the names, made when somebody looks for a part of a name.
	joined func() string
}

// having counts the readable rows of a block that have traits in common, and those among them about
// whose proxies something is known.
type having struct {
	traits   *Traits
	n, known int
}

// read returns the blocks as they are now, which never change.
func (r *roll) read() []*block {
	r.edition++
	return r.blocks
}

// find returns where a dataplane is, or where it belongs.
func (r *roll) find(name string) (at, row int, found bool) {
	at, found = slices.BinarySearchFunc(r.blocks, name, func(b *block, name string) int { return strings.Compare(b.rows[0].Name, name) })
	if !found && at > 0 {
		at-- // the last block that begins before the name
	}
	if at == len(r.blocks) {
		return at, 0, false
	}
	row, found = slices.BinarySearchFunc(r.blocks[at].rows, name, byName)
	return at, row, found
}

// put adds or replaces a dataplane; nil takes it away. It returns what was there, or nil.
func (r *roll) put(name string, l *Listed) (old *Listed) {
	at, row, found := r.find(name)
	if !found && l == nil {
		return nil
	}
	r.change()
	if at == len(r.blocks) {
		r.blocks = append(r.blocks, r.made(nil))
	}
	b := r.open(at)
	if found {
		old = b.rows[row]
	}
	switch {
	case !found:
		b.rows = slices.Insert(b.rows, row, l)
	case l == nil:
		b.rows = slices.Delete(b.rows, row, row+1)
	default:
		b.rows[row] = l
	}
	b.count(old, -1)
	b.count(l, 1)
	r.balance(at)
	return old
}

// change makes the list of blocks one that nobody reads.
func (r *roll) change() {
	if r.own != r.edition {
		r.blocks, r.own = slices.Clone(r.blocks), r.edition
	}
}

// open returns a block that nobody reads, in the place of one that may be read.
func (r *roll) open(at int) *block {
	b := r.blocks[at]
	if b.edition != r.edition {
		b = r.made(b.rows)
		r.blocks[at] = b
	}
	b.name()
	return b
}

// made returns a block of some rows.
func (r *roll) made(rows []*Listed) *block {
	b := &block{rows: append(make([]*Listed, 0, maxBlock), rows...), edition: r.edition}
	for _, l := range b.rows {
		b.count(l, 1)
	}
	b.name()
	return b
}

// balance splits a block that is full, and takes away one that is empty or puts it with the next one.
func (r *roll) balance(at int) {
	b := r.blocks[at]
	switch {
	case len(b.rows) == maxBlock:
		half := maxBlock / 2
		r.blocks[at] = r.made(b.rows[:half])
		r.blocks = slices.Insert(r.blocks, at+1, r.made(b.rows[half:]))
	case len(b.rows) == 0:
		r.blocks = slices.Delete(r.blocks, at, at+1)
	case at+1 < len(r.blocks) && len(b.rows)+len(r.blocks[at+1].rows) < maxBlock/2:
		r.blocks[at] = r.made(slices.Concat(b.rows, r.blocks[at+1].rows))
		r.blocks = slices.Delete(r.blocks, at+1, at+2)
	}
}

// count adds a row to the counts, or takes it from them.
func (b *block) count(l *Listed, by int) {
	if l == nil || l.Unread != nil {
		return
	}
	i := slices.IndexFunc(b.having, func(h having) bool { return h.traits == l.Traits })
	if i < 0 {
		i, b.having = len(b.having), append(b.having, having{traits: l.Traits})
	}
	h := &b.having[i]
	if h.n += by; l.Known {
		h.known += by
	}
	if h.n == 0 {
		b.having = slices.Delete(b.having, i, i+1)
	}
}

// name forgets the names, which have changed.
func (b *block) name() {
	b.joined = sync.OnceValue(func() string {
		var text strings.Builder
		for _, l := range b.rows {
			text.WriteString(l.Name)
			text.WriteByte('\n')
		}
		return text.String()
	})
}
