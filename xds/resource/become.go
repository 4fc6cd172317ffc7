package resource

// Become returns a table of exactly these resources; of two with one name the
// first is kept. It is the same table if that changes no bytes.
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

// same reports whether two resources, or none, are the same bytes.
func (r *Resource) same(o *Resource) bool {
	return r == o || r != nil && o != nil && r.Version == o.Version
}
