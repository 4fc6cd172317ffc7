// Package feed keeps the newest announced commits of a store and delivers them to any number
// of watchers. Watchers read the shared history at their own pace. A slow watcher delays
// nobody and loses nothing silently: it is told when the events that it needs are no longer
// kept.
//
// Revisions in the history are contiguous: every commit that announces something has taken
// the next one.
package feed

import (
	"context"
	"iter"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

// DefaultHistory is the number of events that are kept by default.
const DefaultHistory = 16384

// Feed is the history. It is safe for concurrent use.
type Feed struct {
	limit int

	mu sync.Mutex
	// commits[i] holds the events of revision floor+1+i, which never change.
	commits [][]store.Event
	events  int
	// floor is the newest revision that is no longer kept.
	floor uint64
	// expected is the newest revision that a reader may already have seen.
	expected uint64
	wake     chan struct{}
	closed   bool
}

// New returns a feed that keeps up to limit events (0: [DefaultHistory]), and always the
// newest commit. revision is the newest revision of the store; commits are the commits up to
// it.
func New(limit int, revision uint64, commits [][]store.Event) *Feed {
	if limit <= 0 {
		limit = DefaultHistory
	}
	f := &Feed{limit: limit, floor: revision - uint64(len(commits)), wake: make(chan struct{})}
	f.Publish(commits)
	return f
}

// Revision returns the newest published revision.
func (f *Feed) Revision() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest()
}

func (f *Feed) newest() uint64 { return f.floor + uint64(len(f.commits)) }

// Expect announces that commits up to revision are about to become visible to readers. A
// watcher that starts there is then not mistaken for one from another history.
func (f *Feed) Expect(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = revision
}

// Floor returns the newest revision that would no longer be kept if commits were published. A
// backend may drop its own history up to there.
func (f *Feed) Floor(commits [][]store.Event) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := f.events
	for _, c := range commits {
		total += len(c)
	}
	drop, all := 0, len(f.commits)+len(commits)
	for ; total > f.limit && drop < all-1; drop++ {
		if drop < len(f.commits) {
			total -= len(f.commits[drop])
		} else {
			total -= len(commits[drop-len(f.commits)])
		}
	}
	return f.floor + uint64(drop)
}

// Publish appends commits, each with the next revision, and wakes the watchers.
func (f *Feed) Publish(commits [][]store.Event) {
	if len(commits) == 0 {
		return
	}
	floor := f.Floor(commits)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commits {
		f.events += len(c)
		f.commits = append(f.commits, c)
	}
	for ; f.floor < floor; f.floor++ {
		f.events -= len(f.commits[0])
		f.commits[0] = nil
		f.commits = f.commits[1:]
	}
	close(f.wake)
	f.wake = make(chan struct{})
}

// Close ends every watch.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	close(f.wake)
}

// Watch implements Watch of [store.Store].
func (f *Feed) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	return func(yield func([]store.Event, error) bool) {
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			commits, wake, err := f.since(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range commits {
				if !yield(c, nil) {
					return
				}
				after = c[0].Revision
			}
			if len(commits) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
			case <-wake:
			}
		}
	}
}

// chunk bounds the commits that are handed out at once, so that a slow watcher keeps few of
// them in memory.
const chunk = 256

// since returns the commits after a revision, or a channel to wait for if there are none.
func (f *Feed) since(after uint64) ([][]store.Event, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := f.newest()
	switch {
	case f.closed:
		return nil, nil, Closed()
	case after < f.floor || after > max(newest, f.expected):
		return nil, nil, &store.HistoryLost{Oldest: f.floor + 1}
	case after >= newest:
		return nil, f.wake, nil
	}
	rest := f.commits[after-f.floor:]
	n := min(len(rest), chunk)
	return append([][]store.Event(nil), rest[:n]...), nil, nil
}

// Closed returns the error of all calls to a closed store.
func Closed() error { return fault.New(fault.Unavailable, "the store is closed") }
