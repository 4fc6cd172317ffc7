package resource

// Become returns a table of exactly these resources. If a name occurs twice, the first
// resource is kept. It returns t itself if no bytes change.
func (t *Table) Become(rs []*Resource) *Table {
	if len(rs) == 0 {
		return nil
	}
	next := &Table{byName: make(map[string]*Resource, len(rs))}
	for _, r := range rs {
		if next.byName[r.Name] == nil {
			next.byName[r.Name] = r
		}
	}
	if t.Same(next) {
		return t
	}
	return next
}

// Same reports whether two tables hold the same bytes under the same names.
func (t *Table) Same(o *Table) bool {
	switch {
	case t == o:
		return true
	case t.Len() != o.Len():
		return false
	case t.Root() == o.Root():
		return len(t.Above(o)) == 0
	}
	for r := range t.all() {
		if !r.same(o.Get(r.Name)) {
			return false
		}
	}
	return true
}

// same reports whether two resources have the same bytes. A nil resource equals only nil.
func (r *Resource) same(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Version == o.Version
}
