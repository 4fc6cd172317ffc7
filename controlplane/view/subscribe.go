package view

import (
	"context"
	"sync"

	"github.com/meshgate/meshgate/controlplane/model"
)

// maxChanged bounds the keys in a change set.
const maxChanged = 4096

// Change is what a subscriber has not seen yet. Batches that arrive faster than they are
// taken are merged.
type Change[S any] struct {
	// State is the newest state. Its revision advances with every batch, even if nothing in
	// this scope has changed.
	State S
	// Keys are the resources that changed, in the order of their changes.
	Keys []model.Key
	// All means that any resource may have changed; Keys is then incomplete.
	All bool
}

// Subscription receives the changes of one scope. Only one goroutine may use it.
type Subscription[S State[S]] struct {
	wake  chan<- struct{}
	scope *Scope[S]

	mu sync.Mutex
	// state belongs to keys and all: Take returns them as of one moment.
	state S
	keys  []model.Key
	all   bool
}

// Subscribe starts with a change that covers the whole state. wake gets a signal whenever
// there is something to take. It must have room for one signal, and subscriptions may share
// it.
func (s *Scope[S]) Subscribe(wake chan<- struct{}) *Subscription[S] {
	sub := &Subscription[S]{wake: wake, scope: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[sub] = struct{}{}
	sub.add(s.State(), nil, true)
	return sub
}

// Close ends a subscription.
func (sub *Subscription[S]) Close() {
	sub.scope.mu.Lock()
	defer sub.scope.mu.Unlock()
	delete(sub.scope.subs, sub)
}

// Await returns the first state that shows a revision. While the store cannot be followed, and once
// over is closed, it returns the last state that could be read: a scope that its holder has released
// may show nothing newer. over may be nil. The error is that of ctx.
func (s *Scope[S]) Await(ctx context.Context, revision uint64, over <-chan struct{}) (state S, err error) {
	if state = s.State(); state.Revision() >= revision {
		return state, nil
	}
	wake := make(chan struct{}, 1)
	sub := s.Subscribe(wake)
	defer sub.Close()
	for {
		failure := s.Err()
		if state = s.State(); state.Revision() >= revision || failure != nil {
			return state, nil
		}
		select {
		case <-wake:
		case <-over:
			return s.State(), nil
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// Take returns everything since the last call. The state belongs to the keys: a newer state
// would contain changes that are not in them.
func (sub *Subscription[S]) Take() Change[S] {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	c := Change[S]{State: sub.state, Keys: sub.keys, All: sub.all}
	sub.keys, sub.all = nil, false
	return c
}

func (sub *Subscription[S]) add(state S, keys []model.Key, all bool) {
	sub.mu.Lock()
	sub.state = state
	if all || len(sub.keys)+len(keys) > maxChanged {
		sub.keys, sub.all = nil, true
	} else if !sub.all {
		sub.keys = append(sub.keys, keys...)
	}
	sub.mu.Unlock()
	sub.signal()
}

func (sub *Subscription[S]) signal() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}
