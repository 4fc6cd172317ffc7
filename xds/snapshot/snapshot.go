// Package snapshot holds what every node should have now, tells the streams of
// a node when that changes, and keeps the account of who has confirmed which
// revision. It keeps nothing of the past: a stream that was busy sees the latest
// set only, so a slow proxy costs no memory.
//
// Sets are immutable and compared by content. A publication that changes no
// bytes of a node does not wake that node; the revision alone moves on.
package snapshot

import (
	"slices"
	"sync"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxChanges bounds the remembered revisions of one node. Older ones fold into
// a floor, below which a stream that has not caught up counts as waiting.
const maxChanges = 128

// Store is the table of nodes. All methods may be called from any goroutine.
type Store struct {
	// sets holds the *resource.Set of each node that has one. It is read without
	// the lock.
	sets sync.Map

	mu        sync.Mutex
	nodes     map[string]*node
	published uint64
	opened    uint64 // streams so far; numbers them
	// moved is closed and replaced whenever progress may have changed.
	moved chan struct{}
	// waiters are those in Wait and WaitNodes.
	waiters map[*waiter]struct{}
}

// node is guarded by Store.mu.
type node struct {
	set *resource.Set
	// held is set while there is something published for the node.
	held bool
	// changes are the revisions at which the set changed, ascending.
	changes []uint64
	// floor is the newest revision that was dropped from changes.
	floor uint64
	subs  map[*Subscription]struct{}
}

// New returns an empty table.
func New() *Store {
	return &Store{nodes: map[string]*node{}, moved: make(chan struct{}), waiters: map[*waiter]struct{}{}}
}

// Publish replaces the sets of the nodes in the batch; other nodes keep theirs.
// The batch is visible as a whole before the first stream is woken, and each
// stream is woken at most once, only if its own set differs. The revision never
// goes back: an older one than the last counts as the last.
func (s *Store) Publish(batch map[string]*resource.Set, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = max(s.published, revision)
	var wake []*Subscription
	var changed []string
	var compare resource.Comparer
	for id, set := range batch {
		n := s.node(id)
		if n.held && compare.Equal(n.set, set) {
			continue
		}
		n.set, n.held = set, true
		s.sets.Store(id, set)
		n.changed(s.published)
		changed = append(changed, id)
		for sub := range n.subs {
			wake = append(wake, sub)
		}
	}
	for _, sub := range wake {
		sub.signal()
	}
	s.move(changed...)
}

// Drop forgets what a node should have. Its streams stay open and keep serving
// nothing new: a proxy is never emptied because its owner went away.
func (s *Store) Drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil {
		return
	}
	n.held = false
	s.sets.Delete(id)
	if len(n.subs) == 0 {
		delete(s.nodes, id)
	}
	s.move(id)
}

// Get returns the set of a node, nil if there is none.
func (s *Store) Get(id string) *resource.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil && n.held {
		return n.set
	}
	return nil
}

// HasPlugin reports whether what a node should have now carries a plugin
// instance. It waits for nobody, because each question about a token asks it.
func (s *Store) HasPlugin(id, plugin string) bool {
	set, ok := s.sets.Load(id)
	return ok && set.(*resource.Set).HasPlugin(plugin)
}

// Nodes returns the ids of the nodes that have a set, in order.
func (s *Store) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.nodes))
	for id, n := range s.nodes {
		if n.held {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Published returns the newest published revision.
func (s *Store) Published() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published
}

func (s *Store) node(id string) *node {
	n := s.nodes[id]
	if n == nil {
		n = &node{subs: map[*Subscription]struct{}{}}
		s.nodes[id] = n
	}
	return n
}

// move wakes those who watch progress, and judges the nodes that may have moved
// for those who wait. The caller holds mu.
func (s *Store) move(ids ...string) {
	for w := range s.waiters {
		w.judge(s, ids...)
	}
	close(s.moved)
	s.moved = make(chan struct{})
}

func (n *node) changed(revision uint64) {
	if k := len(n.changes); k > 0 && n.changes[k-1] == revision {
		// A second change under one revision: whoever confirmed the first one
		// has not seen it, so the revision must not count as confirmed.
		for sub := range n.subs {
			sub.acked = min(sub.acked, revision-min(revision, 1))
		}
		return
	}
	n.changes = append(n.changes, revision)
	if len(n.changes) > maxChanges {
		n.floor = n.changes[0]
		n.changes = slices.Delete(n.changes, 0, 1)
	}
}

// behind reports whether a stream that confirmed acked lacks a change that
// happened at or before the revision.
func (n *node) behind(acked, revision uint64) bool {
	if acked < n.floor && acked < revision {
		return true
	}
	for _, c := range n.changes {
		if c > revision {
			return false
		}
		if c > acked {
			return true
		}
	}
	return false
}

// newest is the stream opened last: the others are of a predecessor that is
// ending, or half open, and will never answer.
func (n *node) newest() *Subscription {
	var last *Subscription
	for sub := range n.subs {
		if last == nil || sub.number > last.number {
			last = sub
		}
	}
	return last
}
