package view

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Pauses between attempts to follow a store that fails.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// attempts is how often a scope tries to read exactly the changed keys at one
// revision before it reads everything.
const attempts = 3

// Scope follows one control plane.
type Scope struct {
	name  string
	store store.Store
	log   *slog.Logger
	state atomic.Pointer[Gateway]
	// ready is closed after the first load.
	ready chan struct{}

	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// State returns the newest state; never nil for a scope that was opened.
func (s *Scope) State() *Gateway { return s.state.Load() }

// run follows the store until ctx ends.
func (s *Scope) run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		before := s.state.Load()
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if _, lost := errors.AsType[*store.HistoryLost](err); lost {
			s.log.Info("view is loaded anew", "scope", s.name, "reason", err.Error())
			continue
		}
		if s.state.Load() != before {
			pause = minPause
		}
		s.log.Error("view cannot follow the store", "scope", s.name, "error", err.Error(), "pause", pause.String())
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
		pause = min(pause*2, maxPause)
	}
}

// follow loads the scope and applies deltas until something fails.
func (s *Scope) follow(ctx context.Context) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	f, ended := startFeed(ctx, s.store, s.name, s.state.Load().revision)
	defer func() {
		stop()
		<-ended
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
		reached, err := f.status()
		if err != nil {
			return err
		}
		if reached <= s.state.Load().revision {
			continue
		}
		if err := s.advance(ctx, f); err != nil {
			return err
		}
	}
}

// reload reads everything.
func (s *Scope) reload(ctx context.Context) error {
	var next *Gateway
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		next, err = Load(s.name, r)
		return err
	})
	if err != nil {
		return err
	}
	s.publish(next, nil, true)
	return nil
}

// advance applies what changed. The reader may already show commits whose
// events have not arrived; a state made of it would mix revisions. It is then
// tried again once they are there; under a storm of writes everything is read,
// which is exact by nature.
func (s *Scope) advance(ctx context.Context, f *feed) error {
	for range attempts {
		var next *Gateway
		var keys []model.Key
		var wanted uint64
		err := s.store.View(ctx, func(r store.Reader) error {
			wanted = r.Revision()
			pending, complete := f.upTo(wanted)
			if !complete {
				return nil
			}
			var err error
			next, keys, err = s.state.Load().apply(r, pending)
			return err
		})
		if err != nil {
			return err
		}
		if next != nil {
			f.applied(wanted)
			s.publish(next, keys, false)
			return nil
		}
		if err := await(ctx, f, wanted); err != nil {
			return err
		}
	}
	if err := s.reload(ctx); err != nil {
		return err
	}
	f.applied(s.state.Load().revision)
	return nil
}

// await waits until the feed has reached a revision.
func await(ctx context.Context, f *feed, revision uint64) error {
	for {
		reached, err := f.status()
		if err != nil || reached >= revision {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
	}
}

func (s *Scope) publish(next *Gateway, keys []model.Key, reloaded bool) {
	s.mu.Lock()
	first := s.state.Swap(next) == nil
	for sub := range s.subs {
		sub.add(next, keys, reloaded)
	}
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
}
