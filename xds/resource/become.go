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
	if t == o {
		return true
	}
	if t.Len() != o.Len() {
		return false
	}
	for name, r := range t.byName {
		if x := o.byName[name]; x != r && (x == nil || x.Version != r.Version) {
			return false
		}
	}
	return true
}
