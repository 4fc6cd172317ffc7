package publish

import (
	"container/list"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxAway is how many nodes that have left are remembered; of more, those that left
// first are forgotten.
const maxAway = 4096

// away are the last sets of nodes that have left, in the order in which they did.
type away struct {
	limit int
	nodes map[string]*list.Element
	order *list.List
}

type departed struct {
	node string
	set  *resource.Set
}

func newAway(limit int) away {
	return away{limit: limit, nodes: map[string]*list.Element{}, order: list.New()}
}

// put remembers a node and returns the one that is forgotten for it, empty if none
// is.
func (a *away) put(node string, set *resource.Set) (forgotten string) {
	a.drop(node)
	a.nodes[node] = a.order.PushBack(departed{node, set})
	if a.order.Len() <= a.limit {
		return ""
	}
	oldest, _ := a.order.Front().Value.(departed)
	a.drop(oldest.node)
	return oldest.node
}

// get returns the last set of a node, nil if it is not known.
func (a *away) get(node string) *resource.Set {
	e := a.nodes[node]
	if e == nil {
		return nil
	}
	d, _ := e.Value.(departed)
	return d.set
}

func (a *away) drop(node string) {
	if e := a.nodes[node]; e != nil {
		a.order.Remove(e)
		delete(a.nodes, node)
	}
}
