package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// Options are the sources of a [Registry]. All are required except Problems, Filters, Gone
// and GoneFormer.
type Options struct {
	Insights  *insight.Insights
	Snapshots *snapshot.Store
	// Scope names the scope of a node in Snapshots, given its type and its mesh or control
	// plane.
	Scope func(typ, name string) string
	// Latest returns the newest revision. Scopes without connected nodes will show it.
	Latest func() uint64
	// Problems returns which configuration of a node is not applied as configured, one
	// sentence each.
	Problems func(insight.Node) []string
	// Filters counts the known filters by node. It is nil if there are none.
	Filters func() map[string]Filters
	// Gone forgets the filters of a node that is gone for good. It fails with Conflict while
	// one of them is linked.
	Gone func(node string) error
	// GoneFormer forgets the filters that are not linked, of a node that continues with
	// others. It fails with Conflict while none is linked.
	GoneFormer func(node string) error
	// Stored reads what is stored of a node that may come: its Dataplane or its enrolment; nil if nothing is.
	Stored func(ctx context.Context, node insight.Node) (*model.Resource, error)
	// Delete forgets a node, and deletes what Stored has returned of it. In its transaction it finds out whether
	// the node has registered anew since then. Such a node stays as it is.
	Delete func(ctx context.Context, node insight.Node, seen *model.Resource) (stays bool, err error)
	// Instance distinguishes the marks of this process from those of others.
	Instance string
}

// Registry knows every node.
type Registry struct{ Options }

// New returns a registry.
func New(o Options) *Registry { return &Registry{o} }

// Query selects nodes. The zero value selects all.
type Query struct {
	// State is one of the states of insight, or empty for all. Away includes refused nodes.
	State string
	// Part is a text that the names must contain.
	Part string
	// Sees, if set, says which nodes there are for whoever asks, by their ids.
	Sees func(id string) bool
	// After is the name after which the page begins, Offset the number of nodes to skip
	// there, and Size the number of nodes on the page, or 0 for all.
	After        string
	Offset, Size int
}

// Page is a part of the list, in the order of the names.
type Page struct {
	Nodes []Node
	// Total is the number of selected nodes. More says whether some of them follow the page.
	Total int
	More  bool
	// Mark changes whenever the shown data of nodes change, except for their filters; see
	// [Registry.Await].
	Mark string
}

// States lists the valid values of [Query].State.
func States() []string { return []string{insight.Connected, insight.Away, insight.Refused} }

// candidate is a node before it is shown. known is false if only filters of it are
// remembered.
type candidate struct {
	insight.Node
	known bool
}

// List answers a query.
func (r *Registry) List(q Query) Page {
	p := Page{Nodes: []Node{}, Mark: r.mark()} // taken before the nodes are read, so that no change is missed
	filters := r.filters()
	var picked []candidate
	for _, n := range r.all(filters) {
		if q.picks(n.Node) {
			p.Total++
			if n.ID > q.After {
				picked = append(picked, n)
			}
		}
	}
	picked = picked[min(q.Offset, len(picked)):]
	if q.Size > 0 && len(picked) > q.Size {
		picked, p.More = picked[:q.Size], true
	}
	for _, n := range picked {
		p.Nodes = append(p.Nodes, r.show(n, filters[n.ID]))
	}
	return p
}

func (q Query) picks(n insight.Node) bool {
	state := q.State == "" || n.State == q.State || q.State == insight.Away && n.State == insight.Refused
	return state && strings.Contains(n.ID, q.Part) && (q.Sees == nil || q.Sees(n.ID))
}

func (r *Registry) show(c candidate, f Filters) Node {
	if c.known {
		return r.document(c.Node, f)
	}
	return r.orphan(c.ID, f)
}

// all lists the known nodes, and those of which only filters are known, in the order of
// their ids.
func (r *Registry) all(filters map[string]Filters) []candidate {
	known := r.Insights.Nodes()
	out := make([]candidate, 0, len(known))
	missing := map[string]bool{}
	for id := range filters {
		missing[id] = id != "" // filters beyond the bound have no node name
	}
	for _, n := range known {
		out = append(out, candidate{n, true})
		delete(missing, n.ID)
	}
	for id, is := range missing {
		if is {
			out = append(out, candidate{Node: split(id, filters[id])})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (r *Registry) filters() map[string]Filters {
	if r.Filters == nil {
		return nil
	}
	return r.Filters()
}

// Get returns one node, or NotFound for an unknown one.
func (r *Registry) Get(name string) (Node, error) {
	f, remembered := r.filters()[name]
	n, known := r.Insights.Node(name)
	if !known && (!remembered || name == "") {
		return Node{}, missing(name)
	}
	if !known {
		n.ID = name
	}
	return r.show(candidate{n, known}, f), nil
}

func missing(name string) error {
	return fault.New(fault.NotFound, "node %q is not known", name)
}

// Counts returns the number of nodes by type and state. As in [Registry.List], nodes of
// which only filters are remembered are away unless one is linked.
func (r *Registry) Counts() map[string]map[string]int {
	out := r.Insights.Counts()
	for id, f := range r.filters() {
		if _, known := r.Insights.Node(id); !known && id != "" {
			n := split(id, f)
			out[n.Type][n.State]++
		}
	}
	return out
}

// MaxAway bounds the names that [Registry.Away] returns.
const MaxAway = 100

// Away counts the nodes of some scopes that are not connected, and names some of them.
func (r *Registry) Away(concerned func(scope string) bool) (count int, names []string) {
	for _, n := range r.Insights.Nodes() {
		if n.State == insight.Connected || !concerned(r.Scope(n.Type, n.Scope)) {
			continue
		}
		if count++; len(names) < MaxAway {
			names = append(names, n.ID)
		}
	}
	return count, names
}

// Remove forgets a node that is gone for good: that it was ever seen, what is stored of it,
// and that its filters may answer from memory or from their disks. By calling it, the caller
// states that none of the node's processes runs or will come back with either. It fails with
// NotFound for an unknown node and with Conflict for a connected one, also if it connects
// meanwhile as what it was: the node and what is stored of it stay, and what its filters
// remembered is forgotten all the same. One that registers
// meanwhile is another one, and stays without an error.
//
// allowed, if set, may refuse the deletion of what is stored, by its kind. Nothing is done then.
func (r *Registry) Remove(ctx context.Context, name string, allowed func(*model.Kind) error) error {
	n, known := r.Insights.Node(name)
	f, remembered := r.filters()[name]
	if !known && !remembered || name == "" {
		return missing(name)
	}
	seen, err := r.stored(ctx, n, known, allowed)
	switch {
	case err != nil:
		return err
	case n.State == insight.Connected || f.Linked > 0:
		return Connected(name)
	}
	if r.Gone != nil {
		if err := r.Gone(name); err != nil {
			return err
		}
	}
	if !known {
		return nil
	}
	stays, err := r.Delete(ctx, n, seen)
	if fault.Is(err, fault.Conflict) {
		return err
	}
	if err != nil {
		return fmt.Errorf("delete what is stored of node %s: %w", name, err)
	}
	if !stays {
		// Its Dataplane may already be gone, and its insight with it. Or it has already come
		// back as a new node, which stays.
		r.Insights.Remove(name)
	}
	return nil
}

// Connected is the Conflict of whoever removes a node that is connected.
func Connected(node string) error {
	return fault.New(fault.Conflict, "node %s is connected: stop it first. That only former processes of it are gone for good is said with ?former=true", node)
}

// stored reads what is to be deleted with a node; nil if there is nothing.
func (r *Registry) stored(ctx context.Context, n insight.Node, known bool, allowed func(*model.Kind) error) (*model.Resource, error) {
	if !known { // only filters of it are remembered
		return nil, nil //nolint:nilnil // nil is nothing
	}
	seen, err := r.Stored(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("read what is stored of node %s: %w", n.ID, err)
	}
	if seen != nil && allowed != nil {
		err = allowed(seen.Kind)
	}
	return seen, err
}

// RemoveFormer forgets former processes of a node that continues: their filters may no
// longer answer from memory or from their disks. By calling it, the caller states that none
// of them runs or will come back with either. Nothing else of the node changes. It fails
// with NotFound for an unknown node, and with Conflict while no filter of the node is
// linked.
func (r *Registry) RemoveFormer(name string) error {
	if _, remembered := r.filters()[name]; !remembered || name == "" || r.GoneFormer == nil {
		if _, known := r.Insights.Node(name); !known || name == "" {
			return missing(name)
		}
		return nil // no filter of it is remembered
	}
	return r.GoneFormer(name)
}

// settle is how long [Registry.Await] waits for further changes, so that a thousand proxies
// that return together do not cause a thousand answers.
const settle = 200 * time.Millisecond

// mark names the current state of what is shown of nodes.
func (r *Registry) mark() string {
	of, _ := r.Insights.Moves()
	far, _ := r.Snapshots.Moves()
	return fmt.Sprintf("%s.%d.%d", r.Instance, of, far)
}

// Await returns when the shown data of nodes are no longer those that a mark names, or when
// the context ends. It is woken by events, and waits a moment for further changes.
func (r *Registry) Await(ctx context.Context, mark string) {
	for r.mark() == mark {
		_, moved := r.Insights.Moves()
		_, advanced := r.Snapshots.Moves()
		if r.mark() != mark {
			break
		}
		select {
		case <-moved:
		case <-advanced:
		case <-ctx.Done():
			return
		}
	}
	pause := time.NewTimer(settle)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}
