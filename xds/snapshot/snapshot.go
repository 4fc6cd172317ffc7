// Package snapshot holds what every node should have now, tells the streams of
// a node when that changes, and keeps the account of who has confirmed which
// revision. It keeps nothing of the past: a stream that was busy sees the latest
// set only, so a slow proxy costs no memory.
//
// Nodes belong to scopes, each of which shows revisions of its own: one that
// cannot go on holds up the account of its own nodes and of no others.
//
// Sets are immutable and compared by content. A publication that changes no
// bytes of a node does not wake that node; the revision alone moves on.
package snapshot

import (
	"math"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxChanges bounds the remembered changes of one node. Older ones fold into
// a floor, below which a stream that has not caught up counts as waiting.
const maxChanges = 128

// Newest stands for whatever is published last, in Progress.
const Newest = uint64(math.MaxUint64)

// Store is the table of nodes. All methods may be called from any goroutine.
type Store struct {
	// sets holds the *resource.Set of each node that has one. It is read without
	// the lock.
	sets sync.Map

	mu     sync.Mutex
	nodes  map[string]*node
	scopes map[string]*scope
	opened uint64 // streams so far; numbers them
	// moved is closed and replaced whenever progress may have changed.
	moved chan struct{}
	moves uint64 // counts what closed moved
	// waiters are those in Wait and WaitNodes.
	waiters map[*waiter]struct{}
}

// scope is how far the nodes of one scope are planned. Guarded by Store.mu.
type scope struct {
	published uint64
	// lacks, unless 0, is the oldest revision that is not shown although a newer
	// one is published.
	lacks uint64
}

func (s *scope) shows(revision uint64) bool {
	return s.published >= revision && (s.lacks == 0 || revision < s.lacks)
}

// Publication is what one scope shows from now on.
type Publication struct {
	Scope string
	// Sets replace those of the named nodes; other nodes keep theirs.
	Sets map[string]*resource.Set
	// Revision is the newest revision that the scope shows. It never goes back: an
	// older one than the last counts as the last.
	Revision uint64
	// Since is the oldest revision whose changes the sets may hold; 0 for the one
	// after the last published.
	Since uint64
	// Lacks, unless 0, is the oldest revision that the scope does not show although
	// Revision is newer. It holds until the next publication of the scope.
	Lacks uint64
}

// node is guarded by Store.mu.
type node struct {
	scope string
	set   *resource.Set
	// held is set while there is something published for the node.
	held bool
	// version counts the changes of the set.
	version uint64
	// changes are those that are remembered, ascending.
	changes []change
	// floor is the newest change that is not remembered any more, with the oldest
	// revision of all of them.
	floor change
	subs  map[*Subscription]struct{}
}

// change is one change of a node's set.
type change struct {
	version uint64
	// since is the oldest revision that may be part of it.
	since uint64
}

// New returns an empty table.
func New() *Store {
	return &Store{
		nodes: map[string]*node{}, scopes: map[string]*scope{}, moved: make(chan struct{}), waiters: map[*waiter]struct{}{},
	}
}

// Publish is Announce for a store with one scope, the nameless one.
func (s *Store) Publish(batch map[string]*resource.Set, revision uint64) {
	s.Announce(Publication{Sets: batch, Revision: revision})
}

// Announce takes publications over, all at once: they are visible as a whole
// before the first stream is woken, and each stream is woken at most once, only
// if its own set differs.
func (s *Store) Announce(ps ...Publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wake []*Subscription
	var changed []string
	var compare resource.Comparer
	for _, p := range ps {
		since := s.announce(p)
		for id, set := range p.Sets {
			n := s.node(id)
			n.scope = p.Scope
			if n.held && compare.Equal(n.set, set) {
				continue
			}
			n.set, n.held = set, true
			s.sets.Store(id, set)
			n.changed(since)
			changed = append(changed, id)
			for sub := range n.subs {
				wake = append(wake, sub)
			}
		}
	}
	for _, sub := range wake {
		sub.signal()
	}
	s.move(changed...)
}

// announce moves a scope on and returns the oldest revision that its sets may hold.
func (s *Store) announce(p Publication) (since uint64) {
	sc := s.scopes[p.Scope]
	if sc == nil {
		sc = &scope{}
		s.scopes[p.Scope] = sc
	}
	since = min(sc.published+1, p.Revision)
	if p.Since > 0 {
		since = min(since, p.Since)
	}
	sc.published, sc.lacks = max(sc.published, p.Revision), p.Lacks
	return since
}

// End forgets a scope: nobody waits for it any more. Its nodes are dropped one by
// one, as their streams end.
func (s *Store) End(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scopes, name)
	s.move()
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

// HasPlugins reports whether it carries any plugin instance; see [Store.HasPlugin].
func (s *Store) HasPlugins(id string) bool {
	set, ok := s.sets.Load(id)
	return ok && set.(*resource.Set).HasPlugins()
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

// Published returns the newest revision that every scope shows.
func (s *Store) Published() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(nil, 0)
}

// shown is the newest revision that all of the named scopes show (nil for every
// scope), none if there are no such scopes.
func (s *Store) shown(names []string, none uint64) uint64 {
	revision, found := Newest, false
	for name, sc := range s.scopes {
		if names == nil || slices.Contains(names, name) {
			found, revision = true, min(revision, sc.newest())
		}
	}
	if !found {
		return none
	}
	return revision
}

func (s *scope) newest() uint64 {
	if s.lacks > 0 {
		return min(s.published, s.lacks-1)
	}
	return s.published
}

// shows reports whether all of the named scopes show a revision, nil for every
// scope. One that is not known has no nodes, and shows everything.
func (s *Store) shows(names []string, revision uint64) bool {
	if names == nil {
		for _, sc := range s.scopes {
			if !sc.shows(revision) {
				return false
			}
		}
		return len(s.scopes) > 0
	}
	for _, name := range names {
		if sc := s.scopes[name]; sc != nil && !sc.shows(revision) {
			return false
		}
	}
	return true
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
	s.moved, s.moves = make(chan struct{}), s.moves+1
}

func (n *node) changed(since uint64) {
	n.version++
	n.changes = append(n.changes, change{n.version, since})
	if len(n.changes) > maxChanges {
		oldest := n.changes[0]
		if n.floor.version > 0 {
			oldest.since = min(oldest.since, n.floor.since)
		}
		n.floor = oldest
		n.changes = slices.Delete(n.changes, 0, 1)
	}
}

// behind reports whether a stream that confirmed the changes up to acked lacks one
// that may hold the revision or an older one.
func (n *node) behind(acked, revision uint64) bool {
	if acked < n.floor.version && n.floor.since <= revision {
		return true
	}
	for _, c := range slices.Backward(n.changes) {
		if c.version <= acked {
			break
		}
		if c.since <= revision {
			return true
		}
	}
	return false
}

// oldest is the oldest revision that the changes after acked may hold, Newest if there
// are none.
func (n *node) oldest(acked uint64) uint64 {
	oldest := Newest
	if acked < n.floor.version {
		oldest = n.floor.since
	}
	for _, c := range slices.Backward(n.changes) {
		if c.version <= acked {
			break
		}
		oldest = min(oldest, c.since)
	}
	return oldest
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
