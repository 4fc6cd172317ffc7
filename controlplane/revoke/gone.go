package revoke

import (
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Filters counts the filters of one node.
type Filters struct {
	// Known counts the filters that may answer from memory. Linked counts those of them
	// that are linked.
	Known, Linked int
}

// Filters counts the known filters by node. Filters beyond the overall bound, whose nodes
// are not remembered, are counted under the empty name.
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

// nodeOf returns the node of a known filter. It is empty for filters of any node.
func nodeOf(name string) string {
	instance, node, _ := strings.Cut(name, others)
	if instance == "" { // a group of filters of one hour
		node, _, _ = strings.Cut(node, others)
	}
	return node
}

// isOf reports whether a known filter, or a group of filters, belongs to a node.
func isOf(name, node string) bool {
	return nodeOf(name) == node && node != ""
}

// Gone forgets the filters of a node after an operator has declared that the node is gone
// for good: its processes do not run, and will not come back with their memory or their
// disk. It fails with Conflict while a filter of the node is linked. It returns when this
// would survive a restart.
//
// The control plane cannot verify what the operator says: the disk of the node, which says
// what a filter believes of a Redis that was replaced, is out of reach. A filter that
// returns all the same is treated as new: its link starts anew, and its agent removes that
// file before it starts Envoy (enrol.Answer.Unknown).
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
	if err := r.storeKnown(); err != nil {
		return fmt.Errorf("forget the filters of node %s: %w", node, err)
	}
	return nil
}

// GoneFormer forgets former filters of a node that continues with another process. An
// operator has declared, as for [Revoker.Gone], that they are gone for good. It forgets the
// filters that are not linked and whose process has no linked filter. It fails with
// Conflict while no filter of the node is linked, because then the running process cannot
// be told from those that are gone. It returns when this would survive a restart.
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
	if err := r.storeKnown(); err != nil {
		return fmt.Errorf("forget former filters of node %s: %w", node, err)
	}
	return nil
}
