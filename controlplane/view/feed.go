package view

import (
	"context"
	"sync"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxPending bounds the changes that wait to be applied. Beyond it a scope is loaded again,
// which is then cheaper.
const maxPending = 100_000

// feed receives a store's change feed for one scope and keeps the changes that have not been
// applied yet.
type feed struct {
	// mine chooses the keys that are kept.
	mine func(model.Key) bool
	// wake holds one signal: something has arrived since the last look.
	wake chan struct{}

	mu      sync.Mutex
	pending []store.Event
	// reached is the newest revision received.
	reached uint64
	// err is the error that has ended the feed.
	err error
}

// startFeed watches until ctx ends; done is closed when it has ended.
func startFeed(ctx context.Context, s store.Store, mine func(model.Key) bool, after uint64) (f *feed, done <-chan struct{}) {
	f = &feed{mine: mine, wake: make(chan struct{}, 1), reached: after}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for events, err := range s.Watch(ctx, after) {
			if !f.receive(events, err) {
				return
			}
		}
		f.receive(nil, context.Canceled)
	}()
	return f, ended
}

func (f *feed) receive(events []store.Event, err error) bool {
	f.mu.Lock()
	for _, e := range events {
		f.reached = max(f.reached, e.Revision)
		if f.mine(e.Key) {
			f.pending = append(f.pending, e)
		}
	}
	if err == nil && len(f.pending) > maxPending {
		err = &store.HistoryLost{Oldest: f.reached}
	}
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return err == nil
}

// upTo returns the changed keys up to a revision, each once; ok is false while
// the feed has not reached it.
func (f *feed) upTo(revision uint64) (keys []model.Key, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reached < revision {
		return nil, false
	}
	seen := map[model.Key]struct{}{}
	for _, e := range f.pending {
		if _, again := seen[e.Key]; again || e.Revision > revision {
			continue
		}
		seen[e.Key] = struct{}{}
		keys = append(keys, e.Key)
	}
	return keys, true
}

// applied forgets the changes up to a revision.
func (f *feed) applied(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.pending[:0]
	for _, e := range f.pending {
		if e.Revision > revision {
			rest = append(rest, e)
		}
	}
	f.pending = rest
}

// status returns the newest revision received, whether all changes up to it are applied, and
// the error that has ended the feed, if any.
func (f *feed) status() (reached uint64, quiet bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached, len(f.pending) == 0, f.err
}
