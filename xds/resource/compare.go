package resource

// Comparer compares many sets that share tables: each pair of tables is looked
// at once. The zero value is ready; it is for one goroutine and holds on to the
// tables that it has seen.
type Comparer struct{ same map[[2]*Table]bool }

// Equal is [Set.Equal] with a memory.
func (c *Comparer) Equal(a, b *Set) bool {
	if a == b {
		return true
	}
	if !sameSecrets(a, b) {
		return false
	}
	for _, t := range Types {
		if !c.tables(a.Table(t), b.Table(t)) {
			return false
		}
	}
	return true
}

func (c *Comparer) tables(a, b *Table) bool {
	if a == b {
		return true
	}
	pair := [2]*Table{a, b}
	same, known := c.same[pair]
	if !known {
		if c.same == nil {
			c.same = map[[2]*Table]bool{}
		}
		same = a.Same(b)
		c.same[pair] = same
	}
	return same
}
