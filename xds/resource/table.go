package resource

import (
	"maps"
	"sync"
)

// Table is the resources of one type by name. It is immutable and shared freely:
// the replicas of a service hold the same tables. Nil is empty.
type Table struct {
	byName map[string]*Resource
	// plugins are those of all resources, from the first question on.
	plugins map[string]struct{}
	index   sync.Once
}

// hasPlugin reports whether a resource carries a plugin instance.
func (t *Table) hasPlugin(id string) bool {
	_, ok := t.carried()[id]
	return ok
}

// carried are the plugin instances of all resources.
func (t *Table) carried() map[string]struct{} {
	if t == nil {
		return nil
	}
	t.index.Do(func() {
		t.plugins = map[string]struct{}{}
		for _, r := range t.byName {
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
			if t != nil {
				maps.Copy(next, t.byName)
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
		if old == nil || old.Version != r.Version {
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
	return t.byName[name]
}

// Len returns the number of resources.
func (t *Table) Len() int {
	if t == nil {
		return 0
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
	if t != nil {
		for name, r := range t.byName {
			if x := o.Get(name); x != r && (x == nil || x.Version != r.Version) {
				if names = append(names, name); len(names) >= limit {
					return names
				}
			}
		}
	}
	if o != nil {
		for name := range o.byName {
			if t.Get(name) == nil {
				if names = append(names, name); len(names) >= limit {
					return names
				}
			}
		}
	}
	return names
}
