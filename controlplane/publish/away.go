package publish

import (
	"container/list"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxAway is the number of disconnected nodes that are remembered. Beyond it, the nodes
// that left first are forgotten.
const maxAway = 4096

// away holds the last sets of nodes that have left, in the order in which they left.
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

// put remembers a node. It returns the node that was forgotten to make room, or an empty
// id.
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

// get returns the last set of a node, or nil if the node is unknown.
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
