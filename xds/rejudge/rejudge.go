// Package rejudge asks again about what could not be judged, such as the token of
// an open stream while the store is away, until somebody can tell. Nobody else asks
// again: a token that was revoked meanwhile would stay good as long as its stream.
package rejudge

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// ErrRenewed is in the chain of the error of a token that counts no more, if its node has
// shown a newer one since. What is open with it ends all the same, for nobody can tell
// who is at the other end; but its node comes back at once, and nothing is wrong.
var ErrRenewed = errors.New("the node has a newer token")

// Renewed adds [ErrRenewed] to a chain and nothing to its text.
func Renewed(err error) error { return renewed{err} }

type renewed struct{ error }

// Unwrap returns both.
func (r renewed) Unwrap() []error { return []error{r.error, ErrRenewed} }

// The pauses between two rounds of questions: the first one, twice as long after
// each round, and the longest one.
const (
	First = 100 * time.Millisecond
	Last  = 5 * time.Second
)

// Set has the subjects that are still to be judged. While there are any, one
// goroutine asks about them, one after the other. It belongs to who made the set
// and must end it.
type Set[T comparable] struct {
	judge  func(context.Context, T) error
	failed func(left int, again time.Duration, err error)
	ctx    context.Context // of the questions
	cancel context.CancelFunc

	mu sync.Mutex
	// left says of each subject which addition was its last one: a question that was
	// asked before that one cannot know why the subject was added again.
	left           map[T]uint64
	added          uint64
	running, ended bool
	work           sync.WaitGroup
}

// New returns an empty set. judge asks about a subject; its error says that it could
// not be told. failed hears once a round, if not nil, how many subjects are left,
// when they are asked about again, and one of the errors. Both are called without a
// lock of the set, and must not end it.
func New[T comparable](judge func(context.Context, T) error, failed func(left int, again time.Duration, err error)) *Set[T] {
	s := &Set[T]{judge: judge, failed: failed, left: map[T]uint64{}}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:gosec // End calls it
	return s
}

// Add has a subject judged later. A set that has ended takes none.
func (s *Set[T]) Add(subject T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.added++
	s.left[subject] = s.added
	if !s.running {
		s.running = true
		s.work.Go(s.run)
	}
}

// Remove forgets a subject that is gone.
func (s *Set[T]) Remove(subject T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, subject)
}

// End gives up all subjects, also the question that is open, and waits until nothing
// is asked any more.
func (s *Set[T]) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// run asks until nothing is left.
func (s *Set[T]) run() {
	pause := time.NewTimer(First)
	defer pause.Stop()
	for next := 2 * First; ; next = min(2*next, Last) {
		select {
		case <-pause.C:
		case <-s.ctx.Done():
			return
		}
		err := s.round()
		if s.ctx.Err() != nil {
			return
		}
		left := s.rest()
		if left == 0 {
			return
		}
		if err != nil && s.failed != nil {
			s.failed(left, next, err)
		}
		pause.Reset(next)
	}
}

// round asks once about each subject. The error is one of those that say why a
// subject could not be judged.
func (s *Set[T]) round() (failed error) {
	s.mu.Lock()
	left := maps.Clone(s.left)
	s.mu.Unlock()
	for subject, added := range left {
		err := s.judge(s.ctx, subject)
		if s.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			failed = err
		} else {
			s.judged(subject, added)
		}
	}
	return failed
}

// judged takes out a subject, unless it was added again since it was asked about.
func (s *Set[T]) judged(subject T, added uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[subject] == added {
		delete(s.left, subject)
	}
}

// rest is how many subjects are left; the run ends with the last one.
func (s *Set[T]) rest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.left) > 0
	return len(s.left)
}
