package resource

import "maps"

// Layer does what [Table.With] does, for few changes to a table that many share: unchanged
// resources are not copied. A layer of a layer has the same root.
func (t *Table) Layer(put []*Resource, drop []string) *Table {
	if len(put) == 0 && len(drop) == 0 {
		return t
	}
	root := t.Root()
	if root == nil {
		return t.With(put, drop)
	}
	own := make(map[string]*Resource, len(t.layer())+len(put)+len(drop))
	maps.Copy(own, t.layer())
	for _, name := range drop {
		own[name] = nil
	}
	for _, r := range put {
		own[r.Name] = r
	}
	next := &Table{root: root, byName: own, size: root.Len()}
	for name, r := range own {
		was := root.Get(name)
		switch {
		case was.same(r):
			delete(own, name)
		case was == nil:
			next.size++
		case r == nil:
			next.size--
			next.shadows = true
		default:
			next.shadows = true
		}
	}
	switch {
	case len(own) == 0:
		return root
	case next.size == 0:
		return nil
	case t.Same(next):
		return t
	}
	return next
}

// Above lists, in no order, the names that a layer sets or drops and under which two tables
// differ. All other differences are differences of their roots.
func (t *Table) Above(o *Table) (names []string) {
	if t == o {
		return nil
	}
	mine, theirs := t.layer(), o.layer()
	for name := range mine {
		if !t.Get(name).same(o.Get(name)) {
			names = append(names, name)
		}
	}
	for name := range theirs {
		if _, seen := mine[name]; !seen && !t.Get(name).same(o.Get(name)) {
			names = append(names, name)
		}
	}
	return names
}
