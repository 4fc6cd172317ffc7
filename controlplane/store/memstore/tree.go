package memstore

import "hash/maphash"

// seed makes the shape of trees unpredictable, even for somebody who chooses the keys.
var seed = maphash.MakeSeed()

// tree is an immutable ordered map: a treap whose writes copy the path to the changed node
// and share the rest. The zero value is empty. A state made of trees is a snapshot without
// copying, and a transaction is undone by dropping its trees.
type tree[V any] struct{ root *node[V] }

type node[V any] struct {
	key         string
	value       V
	priority    uint64
	left, right *node[V]
}

func (t tree[V]) get(key string) (v V, ok bool) {
	for n := t.root; n != nil; {
		switch {
		case key < n.key:
			n = n.left
		case key > n.key:
			n = n.right
		default:
			return n.value, true
		}
	}
	return v, false
}

// with returns a tree in which key has the value.
func (t tree[V]) with(key string, value V) tree[V] {
	return tree[V]{put(t.root, &node[V]{key: key, value: value, priority: maphash.String(seed, key)})}
}

// without returns a tree without key.
func (t tree[V]) without(key string) tree[V] { return tree[V]{cut(t.root, key)} }

// ascend visits the entries whose key is not below from, in order, until visit
// returns false.
func (t tree[V]) ascend(from string, visit func(key string, value V) bool) {
	walk(t.root, from, visit)
}

func walk[V any](n *node[V], from string, visit func(string, V) bool) bool {
	if n == nil {
		return true
	}
	if n.key < from {
		return walk(n.right, from, visit)
	}
	return walk(n.left, from, visit) && visit(n.key, n.value) && walk(n.right, from, visit)
}

// descend visits the entries whose key is not above from, in reverse order, until
// visit returns false.
func (t tree[V]) descend(from string, visit func(key string, value V) bool) {
	back(t.root, from, visit)
}

func back[V any](n *node[V], from string, visit func(string, V) bool) bool {
	if n == nil {
		return true
	}
	if n.key > from {
		return back(n.left, from, visit)
	}
	return back(n.right, from, visit) && visit(n.key, n.value) && back(n.left, from, visit)
}

func put[V any](n, add *node[V]) *node[V] {
	if n == nil {
		return add
	}
	if n.key == add.key {
		c := *n
		c.value = add.value
		return &c
	}
	if add.priority > n.priority {
		// The key cannot be further down: an equal key has the same priority, which would not
		// be higher than that of its ancestor.
		add.left, add.right = split(n, add.key)
		return add
	}
	c := *n
	if add.key < n.key {
		c.left = put(n.left, add)
	} else {
		c.right = put(n.right, add)
	}
	return &c
}

// split divides a subtree without key into the parts below and above it.
func split[V any](n *node[V], key string) (below, above *node[V]) {
	if n == nil {
		return nil, nil
	}
	c := *n
	if n.key < key {
		c.right, above = split(n.right, key)
		return &c, above
	}
	below, c.left = split(n.left, key)
	return below, &c
}

func cut[V any](n *node[V], key string) *node[V] {
	if n == nil {
		return nil
	}
	c := *n
	switch {
	case key < n.key:
		c.left = cut(n.left, key)
	case key > n.key:
		c.right = cut(n.right, key)
	default:
		return join(n.left, n.right)
	}
	return &c
}

// join merges two subtrees. All keys of the first are below those of the second.
func join[V any](a, b *node[V]) *node[V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		c := *a
		c.right = join(a.right, b)
		return &c
	}
	c := *b
	c.left = join(a, b.left)
	return &c
}
