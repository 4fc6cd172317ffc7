package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
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

// State is what a scope shows at one revision: an immutable value of which
// deltas make the next one. S is the state type itself.
type State[S any] interface {
	// Revision is the store revision that the state shows, complete.
	Revision() uint64
	// at returns the same content at a newer revision.
	at(revision uint64) S
	// apply returns the state that r shows, given the keys that changed since
	// the receiver's revision, and those of them that may have changed it.
	apply(r store.Reader, keys []model.Key) (next S, relevant []model.Key, err error)
}

// source is where the state of a scope comes from.
type source[S State[S]] struct {
	// load reads the whole state, of which the scope goes on. read does so for others.
	load, read func(store.Reader) (S, error)
	// mine reports whether a key may be part of the state. Events of others move
	// the revision and cost nothing more.
	mine func(model.Key) bool
	// reshapes reports whether a key may change which resources mine are; nil if none
	// does. The scope is then read anew, and followed from there.
	reshapes func(model.Key) bool
	// members are what mine goes by, which load may change; nil where nothing does.
	// membership says of which states they are known, if the one of a revision is shown.
	members    func() *scopes.Members
	membership func(shown uint64) Membership
}

// errReshaped ends the following of a scope that may consist of something else now.
var errReshaped = errors.New("what the scope consists of has changed")

// Scope follows one control plane or one mesh.
type Scope[S State[S]] struct {
	name   string
	source source[S]
	store  store.Store
	log    *slog.Logger
	state  atomic.Pointer[S]
	// ready is closed after the first load, stuck after a failure before it.
	ready, stuck chan struct{}
	// failure is why the store cannot be followed at present, nil if it can.
	failure atomic.Pointer[error]

	// users counts those who opened the scope and leave takes one off; the lock of
	// the views guards both.
	users int
	leave func()

	mu   sync.Mutex
	subs map[*Subscription[S]]struct{}
}

func newScope[S State[S]](name string, src source[S], s store.Store, log *slog.Logger) *Scope[S] {
	return &Scope[S]{
		name: name, source: src, store: s, log: log,
		ready: make(chan struct{}), stuck: make(chan struct{}), subs: map[*Subscription[S]]struct{}{},
	}
}

// State returns the newest state; never nil for a scope that was opened.
func (s *Scope[S]) State() S {
	if p := s.state.Load(); p != nil {
		return *p
	}
	var none S
	return none
}

// Err is why the scope cannot follow the store at present: it shows its last state
// and tries again. It is nil while all is well.
func (s *Scope[S]) Err() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Mine reports whether a key may be part of the state.
func (s *Scope[S]) Mine(key model.Key) bool { return s.source.mine(key) }

// Membership is what the control plane consists of, as far as that was read. It is of the
// views of control planes only.
func (s *Scope[S]) Membership() Membership {
	// The state comes first: if the members are read anew in between, they are known to
	// have been so from later on.
	return s.source.membership(s.State().Revision())
}

// Release ends the use of a scope, once for each time it was opened. The last one
// ends the scope itself, which then shows its last state for ever.
func (s *Scope[S]) Release() { s.leave() }

// run follows the store until ctx ends.
func (s *Scope[S]) run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		before := s.state.Load()
		err := s.guarded(ctx)
		if ctx.Err() != nil {
			return
		}
		if _, lost := errors.AsType[*store.HistoryLost](err); lost {
			s.log.Info("view is loaded anew", "scope", s.name, "reason", err.Error())
			continue
		}
		if errors.Is(err, errReshaped) {
			continue
		}
		if s.state.Load() != before {
			pause = minPause
		}
		s.failed(err)
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

// failed notes why the store cannot be followed, and tells those who show it.
func (s *Scope[S]) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure.Swap(&err) == nil && s.state.Load() == nil {
		close(s.stuck)
	}
	for sub := range s.subs {
		sub.signal()
	}
}

// guarded is follow of which a panic is an error: a resource that cannot be indexed
// stops its scope and nothing else.
func (s *Scope[S]) guarded(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("view panicked", "scope", s.name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("the view panicked: %v", v)
		}
	}()
	return s.follow(ctx)
}

// follow loads the scope and applies deltas until something fails.
func (s *Scope[S]) follow(ctx context.Context) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	f, ended := startFeed(ctx, s.store, s.source.mine, s.State().Revision())
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
		reached, quiet, err := f.status()
		if err != nil {
			return err
		}
		switch {
		case reached <= s.State().Revision():
		case quiet:
			s.publish(s.State().at(reached), nil, false)
		default:
			if err := s.advance(ctx, f); err != nil {
				return err
			}
		}
	}
}

// reload reads everything.
func (s *Scope[S]) reload(ctx context.Context) error {
	var next S
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		next, err = s.source.load(r)
		return err
	})
	if err != nil {
		return err
	}
	s.publish(next, nil, true)
	return nil
}

// reloadAlike is reload for a feed that goes on: if the scope consists of something else
// now, the feed may have left out what belongs to it.
func (s *Scope[S]) reloadAlike(ctx context.Context) error {
	if s.source.members == nil {
		return s.reload(ctx)
	}
	before := s.source.members()
	if err := s.reload(ctx); err != nil {
		return err
	}
	if s.source.members() != before {
		return errReshaped
	}
	return nil
}

// advance applies what changed. The reader may already show commits whose
// events have not arrived; a state made of it would mix revisions. It is then
// tried again once they are there; under a storm of writes everything is read,
// which is exact by nature.
func (s *Scope[S]) advance(ctx context.Context, f *feed) error {
	for range attempts {
		var next S
		var keys []model.Key
		var wanted uint64
		var complete bool
		err := s.store.View(ctx, func(r store.Reader) (err error) {
			var pending []model.Key
			wanted = r.Revision()
			pending, complete = f.upTo(wanted)
			if complete && s.source.reshapes != nil && slices.ContainsFunc(pending, s.source.reshapes) {
				return errReshaped
			}
			if complete {
				next, keys, err = s.State().apply(r, pending)
			}
			return err
		})
		if err != nil {
			return err
		}
		if complete {
			f.applied(wanted)
			s.publish(next, keys, false)
			return nil
		}
		if err := await(ctx, f, wanted); err != nil {
			return err
		}
	}
	if err := s.reloadAlike(ctx); err != nil {
		return err
	}
	f.applied(s.State().Revision())
	return nil
}

// await waits until the feed has reached a revision.
func await(ctx context.Context, f *feed, revision uint64) error {
	for {
		reached, _, err := f.status()
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

func (s *Scope[S]) publish(next S, keys []model.Key, reloaded bool) {
	s.mu.Lock()
	first := s.state.Swap(&next) == nil
	s.failure.Store(nil)
	for sub := range s.subs {
		sub.add(next, keys, reloaded)
	}
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
}
