// Package snapshot holds the current set of every node. It tells the streams of a node when
// the set changes, and records who has confirmed which revision. It keeps no history: a stream
// that was busy sees only the latest set, so a slow proxy costs no memory.
//
// Nodes belong to scopes, and each scope shows its own revisions. A scope that makes no
// progress delays the account of its own nodes and of no others.
//
// Sets are immutable and compared by content. A publication that changes no bytes of a node
// does not wake that node; only the revision advances.
package snapshot

import (
	"math"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxChanges is the maximum number of remembered changes per node. Older changes fold into a
// floor; a stream that has not reached the floor counts as waiting.
const maxChanges = 128

// Newest stands for the latest published revision, in Progress.
const Newest = uint64(math.MaxUint64)

// Store is the table of nodes. All methods may be called from any goroutine.
type Store struct {
	// sets holds the *resource.Set of each node that has one. It is read without the lock.
	sets sync.Map

	mu     sync.Mutex
	nodes  map[string]*node
	scopes map[string]*scope
	opened uint64 // number of streams opened so far; numbers them
	// moved is closed and replaced whenever progress may have changed.
	moved chan struct{}
	moves uint64 // how often moved was closed
	// waiters are the calls of Wait and WaitNodes in progress.
	waiters map[*waiter]struct{}
	// refusers are the nodes that refuse something, by id, those that are away included.
	refusers map[string]*refuser
}

// scope describes how far the nodes of one scope are planned. Guarded by Store.mu.
type scope struct {
	published uint64
	// lacks, unless 0, is the oldest revision that is not shown although a newer one is
	// published.
	lacks uint64
	// part is set if the scope counts only where it is named.
	part bool
}

func (s *scope) shows(revision uint64) bool {
	return s.published >= revision && (s.lacks == 0 || revision < s.lacks)
}

// Publication is what one scope shows from now on.
type Publication struct {
	Scope string
	// Sets replace those of the named nodes; other nodes keep theirs.
	Sets map[string]*resource.Set
	// Revision is the newest revision that the scope shows. It never goes back: a revision
	// older than the last one counts as the last one.
	Revision uint64
	// Since is the oldest revision whose changes the sets may contain; 0 means the one after
	// the last published.
	Since uint64
	// Lacks, unless 0, is the oldest revision that the scope does not show although Revision
	// is newer. It holds until the next publication of the scope.
	Lacks uint64
	// Part says that the scope has no nodes: it says of those of another scope what they lack. It
	// counts where it is named, and not where all scopes are asked for, because its nodes may need
	// nothing of what it lacks.
	Part bool
}

// node is what the store knows about a node. Guarded by Store.mu.
type node struct {
	scope string
	set   *resource.Set
	// held is set while something is published for the node.
	held bool
	// version counts the changes of the set.
	version uint64
	// changes are the remembered changes, ascending.
	changes []change
	// floor is the newest forgotten change, with the oldest revision of all forgotten ones.
	floor change
	subs  map[*Subscription]struct{}
}

// change is one change of a node's set.
type change struct {
	version uint64
	// since is the oldest revision that may be part of the change.
	since uint64
}

// New returns an empty store.
func New() *Store {
	return &Store{
		nodes: map[string]*node{}, scopes: map[string]*scope{}, moved: make(chan struct{}), waiters: map[*waiter]struct{}{},
		refusers: map[string]*refuser{},
	}
}

// Publish does what Announce does, for a store with one scope, which has no name.
func (s *Store) Publish(batch map[string]*resource.Set, revision uint64) {
	s.Announce(Publication{Sets: batch, Revision: revision})
}

// Announce applies publications, all at once: they are visible as a whole before the first
// stream is woken. Each stream is woken at most once, and only if its own set differs.
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

// announce advances a scope. It returns the oldest revision that its sets may contain.
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
	sc.published, sc.lacks, sc.part = max(sc.published, p.Revision), p.Lacks, p.Part
	return since
}

// End forgets a scope, so that nobody waits for it any more. Its nodes are dropped one by one,
// as their streams end.
func (s *Store) End(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scopes, name)
	s.move()
}

// Drop forgets the set of a node. The streams of the node stay open and get nothing new: a
// proxy is never emptied because its owner went away.
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

// Get returns the set of a node, or nil.
func (s *Store) Get(id string) *resource.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil && n.held {
		return n.set
	}
	return nil
}

// HasPlugin reports whether the current set of a node contains a plugin instance. It takes no
// lock, because it is called for each question about a token.
func (s *Store) HasPlugin(id, plugin string) bool {
	set, ok := s.sets.Load(id)
	return ok && set.(*resource.Set).HasPlugin(plugin)
}

// HasPlugins reports whether the set contains any plugin instance; see [Store.HasPlugin].
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

// Published returns the newest revision that every scope shows, parts aside; see [Publication.Part].
func (s *Store) Published() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(nil, 0)
}

// shown returns the newest revision that all named scopes show; nil names all scopes but parts.
// It returns none if no such scope exists.
func (s *Store) shown(names []string, none uint64) uint64 {
	revision, found := Newest, false
	for name, sc := range s.scopes {
		if names == nil && !sc.part || slices.Contains(names, name) {
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

// shows reports whether all named scopes show a revision; nil names all scopes but parts, and at
// least one. An unknown scope has no nodes, so it shows everything.
func (s *Store) shows(names []string, revision uint64) bool {
	if names == nil {
		some := false
		for _, sc := range s.scopes {
			if !sc.part && !sc.shows(revision) {
				return false
			}
			some = some || !sc.part
		}
		return some
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

// move wakes those who watch progress. For those who wait, it judges the nodes that may have
// moved. The caller holds mu.
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

// behind reports whether a stream that confirmed the changes up to acked lacks a change that
// may contain the revision or an older one.
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

// oldest returns the oldest revision that the changes after acked may contain, or Newest if
// there are none.
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

// newest returns the stream that was opened last. Older streams belong to a predecessor that
// is ending, or are half open, and will never answer.
func (n *node) newest() *Subscription {
	var last *Subscription
	for sub := range n.subs {
		if last == nil || sub.number > last.number {
			last = sub
		}
	}
	return last
}
