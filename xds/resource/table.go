package resource

import (
	"iter"
	"sync"
)

// Table is the resources of one type by name. It is immutable and shared freely:
// the replicas of a service hold the same tables. Nil is empty.
//
// A table may be a layer over another one, its root, which many share; see
// [Table.Layer]. It looks like any other.
type Table struct {
	// byName are its own resources. In a layer, nil stands for a name of the root that
	// is dropped.
	byName map[string]*Resource
	// root is what a layer is over; it is no layer itself. size counts the resources of
	// a layer, and shadows says that it drops or replaces some of the root.
	root    *Table
	size    int
	shadows bool
	// plugins are those of its own resources, from the first question on.
	plugins map[string]struct{}
	index   sync.Once
}

// Root is the table that a layer is over, and of one that is no layer the table itself.
func (t *Table) Root() *Table {
	if t == nil || t.root == nil {
		return t
	}
	return t.root
}

// layer are the names of which a layer says what they hold, none for other tables.
func (t *Table) layer() map[string]*Resource {
	if t == nil || t.root == nil {
		return nil
	}
	return t.byName
}

// all yields the resources, in no order.
func (t *Table) all() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		if t == nil {
			return
		}
		for _, r := range t.byName {
			if r != nil && !yield(r) {
				return
			}
		}
		if t.root == nil {
			return
		}
		for name, r := range t.root.byName {
			if t.shadows {
				if _, own := t.byName[name]; own {
					continue
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

// hasPlugin reports whether a resource carries a plugin instance.
func (t *Table) hasPlugin(id string) bool {
	return t.carries(func(plugins map[string]struct{}) bool {
		_, ok := plugins[id]
		return ok
	})
}

// hasPlugins reports whether a resource carries any.
func (t *Table) hasPlugins() bool {
	return t.carries(func(plugins map[string]struct{}) bool { return len(plugins) > 0 })
}

// carries asks about the plugin instances of the resources.
func (t *Table) carries(asked func(map[string]struct{}) bool) bool {
	switch {
	case t == nil:
		return false
	case asked(t.carried()):
		return true
	case t.root == nil || !asked(t.root.carried()):
		return false
	case !t.shadows:
		return true
	}
	// What the root carries may be in what is not its any more.
	left := map[string]struct{}{}
	for r := range t.all() {
		for _, p := range r.Plugins {
			left[p] = struct{}{}
		}
	}
	return asked(left)
}

// carried are the plugin instances of its own resources.
func (t *Table) carried() map[string]struct{} {
	t.index.Do(func() {
		t.plugins = map[string]struct{}{}
		for _, r := range t.byName {
			if r == nil {
				continue
			}
			for _, p := range r.Plugins {
				t.plugins[p] = struct{}{}
			}
		}
	})
	return t.plugins
}

// TableOf freezes resources; of two with one name the last is kept. No resources
// make a nil table.
func TableOf(rs []*Resource) *Table {
	if len(rs) == 0 {
		return nil
	}
	t := &Table{byName: make(map[string]*Resource, len(rs))}
	for _, r := range rs {
		t.byName[r.Name] = r
	}
	return t
}

// With returns a table with resources put and names dropped, dropping first. It
// is the same table if that changes no bytes.
func (t *Table) With(put []*Resource, drop []string) *Table {
	var next map[string]*Resource
	edit := func() map[string]*Resource {
		if next == nil {
			next = make(map[string]*Resource, t.Len()+len(put))
			for r := range t.all() {
				next[r.Name] = r
			}
		}
		return next
	}
	for _, name := range drop {
		if t.Get(name) != nil {
			delete(edit(), name)
		}
	}
	for _, r := range put {
		old := t.Get(r.Name)
		if next != nil {
			old = next[r.Name]
		}
		if !old.same(r) {
			edit()[r.Name] = r
		}
	}
	switch {
	case next == nil:
		return t
	case len(next) == 0:
		return nil
	}
	return &Table{byName: next}
}

// Get returns a resource, or nil.
func (t *Table) Get(name string) *Resource {
	if t == nil {
		return nil
	}
	if r, own := t.byName[name]; own || t.root == nil {
		return r
	}
	return t.root.byName[name]
}

// Len returns the number of resources.
func (t *Table) Len() int {
	switch {
	case t == nil:
		return 0
	case t.root != nil:
		return t.size
	}
	return len(t.byName)
}

// Differences lists the names under which two tables hold other bytes, or one
// of them nothing, in no order. It may stop once it has found limit names.
func (t *Table) Differences(o *Table, limit int) []string {
	if t == o {
		return nil
	}
	var names []string
	for r := range t.all() {
		if !r.same(o.Get(r.Name)) {
			if names = append(names, r.Name); len(names) >= limit {
				return names
			}
		}
	}
	for r := range o.all() {
		if t.Get(r.Name) == nil {
			if names = append(names, r.Name); len(names) >= limit {
				return names
			}
		}
	}
	return names
}
