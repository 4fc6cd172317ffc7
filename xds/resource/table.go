package resource

import (
	"iter"
	"sync"
)

// Table holds the resources of one type by name. It is immutable and shared freely: the
// replicas of a service hold the same tables. Nil is empty.
//
// A table may be a layer over another table, its root, which many share; see [Table.Layer]. A
// layer behaves like any other table.
type Table struct {
	// byName are the table's own resources. In a layer, nil means that a name of the root is
	// dropped.
	byName map[string]*Resource
	// root is the table under a layer; it is not a layer itself. size counts the resources of
	// a layer. shadows says that the layer drops or replaces resources of the root.
	root    *Table
	size    int
	shadows bool
	// plugins are those of the table's own resources, computed at the first question.
	plugins map[string]struct{}
	index   sync.Once
}

// Root returns the table under a layer. A table that is not a layer is its own root.
func (t *Table) Root() *Table {
	if t == nil || t.root == nil {
		return t
	}
	return t.root
}

// layer returns the names that a layer sets or drops. It is nil for other tables.
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

// hasPlugin reports whether a resource contains a plugin instance.
func (t *Table) hasPlugin(id string) bool {
	return t.carries(func(plugins map[string]struct{}) bool {
		_, ok := plugins[id]
		return ok
	})
}

// hasPlugins reports whether a resource contains any plugin instance.
func (t *Table) hasPlugins() bool {
	return t.carries(func(plugins map[string]struct{}) bool { return len(plugins) > 0 })
}

// carries reports whether a condition holds for the plugin instances of the resources.
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
	// Those plugins of the root may belong to resources that the layer drops or replaces.
	left := map[string]struct{}{}
	for r := range t.all() {
		for _, p := range r.Plugins {
			left[p] = struct{}{}
		}
	}
	return asked(left)
}

// carried returns the plugin instances of the table's own resources.
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

// TableOf makes a table of resources. If a name occurs twice, the last resource is kept.
// Without resources it returns nil.
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

// With returns a table without the dropped names and then with the given resources. It returns
// t itself if no bytes change.
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

// Differences lists the names under which two tables hold different bytes, or only one holds
// anything, in no order. It may stop once it has found limit names.
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
