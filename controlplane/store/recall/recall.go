// Package recall answers reads of a store from memory for as long as nothing has changed
// that they could have found. It asks the store for its revision at every view, and follows
// the feed up to there, so a view that begins after a change was announced sees the change.
// A store shows a commit to its views a moment before it announces it. Once a view has shown
// one, no later view goes back behind it: whoever reads twice would take the second for newer.
//
// What is kept is bounded by the number of answers and by an estimate of the bytes that they
// occupy. A caller waits for the feed only as long as its context allows.
//
// This works for kinds of which every update and every deletion is announced. What is
// written without a revision must not be among what is read from memory.
package recall

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// maxAnswers and maxBytes bound what is kept. Strangers determine some of the questions,
	// and tenants how large their rows are. What occupies more than maxAnswer is not kept.
	maxAnswers = 4096
	maxBytes   = 16 << 20
	maxAnswer  = maxBytes / 16
	// maxListed bounds the lists that are kept.
	maxListed = 16
	// maxBehind bounds the commits that are followed at once. Whoever is further behind
	// forgets everything, which costs less.
	maxBehind = 256
)

// Cache is a store whose views may be answered from memory. It is safe for concurrent use.
type Cache struct {
	store store.Store
	// kinds are read from memory; true says that their creations are announced, too, so that
	// absence can be kept.
	kinds map[*model.Kind]bool
	// watched are the names of the kinds that are announced. Any event counts if all is set.
	watched map[string]bool
	all     bool

	// shown is the newest revision that a view of the store has had.
	shown atomic.Uint64

	// follows has a place for who follows the feed. A caller can give up its wait for that.
	follows chan struct{}

	// mu is held only briefly.
	mu     sync.Mutex
	memory *memory
}

// New returns a cache of some kinds. It panics if a change of one of them could go by
// unannounced.
func New(s store.Store, kinds ...*model.Kind) *Cache {
	c := &Cache{store: s, kinds: map[*model.Kind]bool{}, watched: map[string]bool{}, follows: make(chan struct{}, 1), memory: newMemory(0)}
	for _, k := range kinds {
		created := k.Class == model.Config || k.Announce == model.AnnounceAll
		if (!created && k.Announce != model.AnnounceRevocations) || k.Expires != nil {
			panic(fmt.Sprintf("recall: not every change of the kind %s is announced", k.Name))
		}
		c.kinds[k], c.watched[k.Name] = created, true
	}
	return c
}

// Accompanied adds kinds that announce nothing, but whose rows are written only by commits
// that announce something else, or else expire without an effect on who reads them. The
// cache then forgets everything at each revision.
func (c *Cache) Accompanied(kinds ...*model.Kind) *Cache {
	for _, k := range kinds {
		c.kinds[k] = true
	}
	c.all = true
	return c
}

// View does the same as View of [store.Store]. fn may run twice, first on what is in memory.
// What it does in the first run must be undone by the second one. Resources must not be
// changed.
func (c *Cache) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	revision := c.store.Revision()
	if m := c.at(ctx, revision); m != nil && revision >= c.shown.Load() {
		r := &remembered{memory: m, revision: revision}
		err := fn(r)
		if !r.missed {
			return err
		}
	}
	return c.store.View(ctx, func(r store.Reader) error {
		c.show(r.Revision())
		m := c.at(ctx, r.Revision())
		if m == nil {
			return fn(r)
		}
		return fn(&learning{Reader: r, cache: c, memory: m})
	})
}

func (c *Cache) show(revision uint64) {
	for was := c.shown.Load(); was < revision && !c.shown.CompareAndSwap(was, revision); {
		was = c.shown.Load()
	}
}

// at returns the memory that is right at a revision, and nil if there is none: the revision
// is older, or so new that the feed does not tell of it yet, or ctx ends before it is known.
func (c *Cache) at(ctx context.Context, revision uint64) *memory {
	if m, known := c.now(revision); known {
		return m
	}
	select {
	case c.follows <- struct{}{}:
		defer func() { <-c.follows }()
	case <-ctx.Done():
		return nil
	}
	m, known := c.now(revision) // who followed before may have come this far
	if known {
		return m
	}
	changed := revision-m.to > maxBehind
	if !changed {
		var err error
		if changed, err = c.changed(ctx, m.to, revision); err != nil {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed {
		c.memory = newMemory(revision)
	} else {
		c.memory.to = revision
	}
	return c.memory
}

// now returns the memory. known says that it is right at a revision, or nil because none is.
func (c *Cache) now(revision uint64) (m *memory, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := c.memory; {
	case revision < m.from:
		return nil, true
	case revision <= m.to:
		return m, true
	case revision > c.store.Revision():
		return nil, true
	default:
		return m, false
	}
}

// changed reports whether an event after one revision and up to another, which the feed has,
// is of a kind that is kept, or whether that is unknown. It fails if ctx ends before.
func (c *Cache) changed(ctx context.Context, after, upTo uint64) (bool, error) {
	if c.all {
		return true, nil
	}
	for events, err := range c.store.Watch(ctx, after) {
		if err != nil {
			return true, ctx.Err()
		}
		for i := range events {
			if c.watched[events[i].Key.Kind] {
				return true, nil
			}
		}
		if events[0].Revision >= upTo {
			return false, nil
		}
	}
	return true, ctx.Err()
}

// memory holds answers that are right in every state from one revision to another.
type memory struct {
	// from and to are guarded by the mutex of the cache.
	from, to uint64

	mu      sync.RWMutex
	answers map[question]answer
	// bytes is what the answers occupy, as [occupied] estimates.
	bytes int
}

func newMemory(revision uint64) *memory {
	return &memory{from: revision, to: revision, answers: map[question]answer{}}
}

// question is a read of a kind. A resource is asked for by the Value of an Index, or by its
// name as the Value.
type question struct {
	kind  *model.Kind
	lists bool
	query store.Query
}

// answer is what a read found, or the error of one that found nothing.
type answer struct {
	list   []*model.Resource
	absent error
	// bytes is what it occupies with its question.
	bytes int
}

func (m *memory) recall(q question) (answer, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	a, known := m.answers[q]
	return a, known
}

// learn keeps an answer. If there is no room for it, any other ones make room.
func (m *memory) learn(q question, a answer) {
	if a.bytes = occupied(&q, &a); a.bytes > maxAnswer {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(q)
	for other := range m.answers {
		if len(m.answers) < maxAnswers && m.bytes+a.bytes <= maxBytes {
			break
		}
		m.forget(other)
	}
	m.answers[q] = a
	m.bytes += a.bytes
}

// forget drops an answer, if there is one. mu is held.
func (m *memory) forget(q question) {
	m.bytes -= m.answers[q].bytes
	delete(m.answers, q)
}
