package revoke

import (
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Filters counts the filters of one node.
type Filters struct {
	// Known is how many may answer from what they remember, Linked how many of them are
	// linked.
	Known, Linked int
}

// Filters counts the known filters by node. Those beyond the bound of all, of which the
// nodes are not remembered, are under the empty name.
func (r *Revoker) Filters() map[string]Filters {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]Filters{}
	for name, k := range r.known {
		node := nodeOf(name)
		n := out[node]
		n.Known++
		if k.links > 0 {
			n.Linked++
		}
		out[node] = n
	}
	return out
}

// Remembers reports whether a filter of a node is known.
func (r *Revoker) Remembers(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.known {
		if isOf(name, node) {
			return true
		}
	}
	return false
}

// nodeOf is the node of a known filter, empty for those of any node.
func nodeOf(name string) string {
	instance, node, _ := strings.Cut(name, others)
	if instance == "" { // several, of an hour
		node, _, _ = strings.Cut(node, others)
	}
	return node
}

// isOf reports whether a known filter is one of a node, or several of them.
func isOf(name, node string) bool {
	return nodeOf(name) == node && node != ""
}

// Gone forgets the filters of a node of which an operator says that it is gone for good:
// its processes do not run, and will not come back with their memory or their disk. It
// is Conflict while one of them is linked. It returns when that would survive a restart.
//
// Nothing can be asked here, so the word of the operator is all there is: what a filter
// believes of a Redis that was replaced is on its disk, out of reach. One that comes back
// all the same is new: its link starts anew, and its agent removes that file before it
// starts Envoy (enrol.Answer.Unknown).
func (r *Revoker) Gone(node string) error {
	r.mu.Lock()
	var names []string
	for name, k := range r.known {
		if !isOf(name, node) {
			continue
		}
		if names = append(names, name); k.links > 0 {
			r.mu.Unlock()
			return fault.New(fault.Conflict, "a filter of node %s is connected", node)
		}
	}
	for _, name := range names {
		r.leave(name)
	}
	r.mu.Unlock()
	if err := r.persistKnown(r.ctx, false); err != nil {
		return fmt.Errorf("forget the filters of node %s: %w", node, err)
	}
	return nil
}

// GoneFormer forgets the filters of a node of which an operator says that they are gone for
// good, as with [Revoker.Gone], while the node goes on with another process: those that
// are not linked, of any process of which no filter is. It is Conflict while none of the
// node is linked. Then nobody could tell the process that goes on from those that are
// gone. It returns when that would survive a restart.
func (r *Revoker) GoneFormer(node string) error {
	r.mu.Lock()
	linked, runs := false, map[string]bool{}
	for name, k := range r.known {
		if isOf(name, node) && k.links > 0 && k.welcomed {
			linked = true
			if p, ok := processOf(name, Node{ID: node}); ok {
				runs[p] = true
			}
		}
	}
	if !linked {
		r.mu.Unlock()
		return fault.New(fault.Conflict, "no filter of node %s is connected, so nobody can tell the one that runs from those that are gone", node)
	}
	for name, k := range r.known {
		if p, _ := processOf(name, Node{ID: node}); isOf(name, node) && k.links == 0 && !runs[p] {
			r.leave(name)
		}
	}
	r.mu.Unlock()
	if err := r.persistKnown(r.ctx, false); err != nil {
		return fmt.Errorf("forget former filters of node %s: %w", node, err)
	}
	return nil
}
