// Package memstore keeps resources in memory, for tests, demonstrations and control planes
// that get everything from declarative files. Except for durability, it behaves like the
// persistent stores. Secrets are not encrypted: they are in the memory of the process anyway.
package memstore

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// Options of a store. The zero value is usable.
type Options struct {
	// History is the number of events that are kept for watchers; 0 = 16384.
	History int
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Past returns the time before which rows have ended; nil = Now. See package steady.
	Past func() time.Time
	// Retention of change records; zero values are those of [store.DefaultRetention].
	Retention store.Retention
}

// memory implements [store.Store]. Readers use the current state and never wait. Writers work
// one at a time on a copy that shares the unchanged parts.
type memory struct {
	now     func() time.Time
	past    func() time.Time
	retain  store.Retention
	feed    *feed.Feed
	current atomic.Pointer[state]
	stop    chan struct{}
	swept   chan struct{}

	// mu is held while a transaction runs; it guards the fields below.
	mu     sync.Mutex
	alarm  *engine.Alarm
	closed atomic.Bool
}

// New returns an empty store with default options.
func New() store.Store { return Open(Options{}) }

// Open returns an empty store. Its Close must be called.
func Open(o Options) store.Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Past == nil {
		o.Past = o.Now
	}
	m := &memory{
		now: o.Now, past: o.Past, retain: o.Retention, feed: feed.New(o.History, 0, nil), alarm: engine.NewAlarm(),
		stop: make(chan struct{}), swept: make(chan struct{}),
	}
	m.current.Store(&state{})
	go m.sweep()
	return m
}

// View implements [store.Store].
func (m *memory) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.closed.Load() {
		return feed.Closed()
	}
	r := engine.NewReader(m.current.Load(), nil, m.past())
	defer r.End()
	return fn(r)
}

// Update implements [store.Store].
func (m *memory) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if err := engine.CheckClass(class); err != nil {
		return store.Commit{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Commit{}, err
	}
	if m.closed.Load() {
		return store.Commit{}, feed.Closed()
	}
	return m.commit(class, func(tx *engine.Tx) error { return fn(tx) })
}

// commit runs fn on a copy of the current state, and publishes the copy unless fn fails or
// panics. The caller holds mu.
func (m *memory) commit(class model.Class, fn func(*engine.Tx) error) (store.Commit, error) {
	past := m.past()
	next := *m.current.Load()
	tx := engine.NewTx(&next, nil, class, m.now(), past)
	defer tx.End()
	if err := fn(tx); err != nil {
		return store.Commit{}, err
	}
	res, err := tx.Finish(m.retain)
	if err != nil {
		return store.Commit{}, err
	}
	m.alarm.Set(res.Earliest, past)
	next.revision = res.Commit.Revision
	if len(res.Events) > 0 {
		m.feed.Expect(next.revision)
	}
	m.current.Store(&next)
	if len(res.Events) > 0 {
		m.feed.Publish([][]store.Event{res.Events})
	}
	return res.Commit, nil
}

// sweep removes expired rows whenever the alarm goes off.
func (m *memory) sweep() {
	defer close(m.swept)
	for {
		select {
		case <-m.stop:
			return
		case <-m.alarm.C():
			m.sweepAll()
		}
	}
}

// sweepAll removes all expired rows, in steps between which others can write.
func (m *memory) sweepAll() {
	for more := true; more; {
		more = m.sweepStep()
	}
}

// sweepStep removes a bounded number of rows and reports whether there may be more. If not,
// it sets the alarm for the next expiry.
func (m *memory) sweepStep() (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return false
	}
	m.alarm.Clear()
	// Removing from memory cannot fail. Rows that are left are removed by the next step.
	_, err := m.commit(model.Config, func(tx *engine.Tx) (err error) {
		_, more, err = tx.Sweep()
		return err
	})
	if more && err == nil {
		return true
	}
	m.current.Load().expiries.ascend("", func(_ string, row string) bool {
		r, _ := m.current.Load().rows.get(row)
		m.alarm.Set(engine.Expiry(r), m.past())
		return false
	})
	return false
}

// Watch implements [store.Store].
func (m *memory) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	return m.feed.Watch(ctx, after)
}

// Revision implements [store.Store].
func (m *memory) Revision() uint64 { return m.feed.Revision() }

// Close implements [store.Store]. It need not wait for views, because they have their own
// state.
func (m *memory) Close() error {
	m.mu.Lock()
	first := !m.closed.Swap(true)
	if first {
		m.alarm.Stop()
		close(m.stop)
	}
	m.mu.Unlock()
	<-m.swept
	m.feed.Close()
	return nil
}
