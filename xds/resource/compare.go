package resource

// Comparer compares many sets that share tables. It compares each pair of tables that are not
// layers only once. The zero value is ready to use by one goroutine. A Comparer keeps the
// tables that it has seen alive.
type Comparer struct{ differences map[[2]*Table]difference }

// difference is a name under which two tables differ.
type difference struct {
	name string
	none bool
}

// Equal does what [Set.Equal] does, with a memory.
func (c *Comparer) Equal(a, b *Set) bool {
	if a == b {
		return true
	}
	if !sameSecrets(a, b) {
		return false
	}
	for _, t := range Types {
		if !c.Same(a.Table(t), b.Table(t)) {
			return false
		}
	}
	return true
}

// Same does what [Table.Same] does, with a memory.
func (c *Comparer) Same(a, b *Table) bool {
	if a == b {
		return true
	}
	if a.Len() != b.Len() {
		return false
	}
	d := c.roots(a.Root(), b.Root())
	if d.none {
		return len(a.Above(b)) == 0
	}
	// A layer may hide the difference of the roots.
	return a.Get(d.name).same(b.Get(d.name)) && a.Same(b)
}

// roots finds a difference between two tables that are not layers.
func (c *Comparer) roots(a, b *Table) difference {
	if a == b {
		return difference{none: true}
	}
	pair := [2]*Table{a, b}
	d, known := c.differences[pair]
	if !known {
		if c.differences == nil {
			c.differences = map[[2]*Table]difference{}
		}
		if names := a.Differences(b, 1); len(names) > 0 {
			d.name = names[0]
		} else {
			d.none = true
		}
		c.differences[pair] = d
	}
	return d
}
