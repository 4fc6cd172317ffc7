// Package rejudge repeats questions that could not be answered, for example about the token of
// an open stream while the store is away, until there is an answer. Nobody else repeats them:
// a token that was revoked meanwhile would stay good as long as its stream.
package rejudge

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// ErrRenewed is in the chain of the error of an invalid token whose node has presented a newer
// one since. Streams with the old token end nevertheless, because nobody can tell who is at
// the other end. But the node returns at once, and nothing is wrong.
var ErrRenewed = errors.New("the node has a newer token")

// Renewed adds [ErrRenewed] to the chain of an error without changing its text.
func Renewed(err error) error { return renewed{err} }

type renewed struct{ error }

// Unwrap returns both errors.
func (r renewed) Unwrap() []error { return []error{r.error, ErrRenewed} }

// These are the first and the longest pause between two rounds of questions. The pause doubles
// after each round.
const (
	First = 100 * time.Millisecond
	Last  = 5 * time.Second
)

// Set contains the subjects that are still to be judged. While there are any, one goroutine
// asks about them, one after the other. The owner of the set must end it.
type Set[T comparable] struct {
	judge  func(context.Context, T) error
	failed func(left int, again time.Duration, err error)
	ctx    context.Context // of the questions
	cancel context.CancelFunc

	mu sync.Mutex
	// left maps each subject to its last addition. A question from before that addition cannot
	// know why the subject was added again.
	left           map[T]uint64
	added          uint64
	running, ended bool
	work           sync.WaitGroup
}

// New returns an empty set. judge asks about a subject; an error means that there is no answer
// yet. failed, if not nil, is called once per failed round with the number of subjects that
// are left, the pause until they are asked about again, and one of the errors. Both are called
// without a lock of the set, and must not end the set.
func New[T comparable](judge func(context.Context, T) error, failed func(left int, again time.Duration, err error)) *Set[T] {
	s := &Set[T]{judge: judge, failed: failed, left: map[T]uint64{}}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:gosec // End calls it
	return s
}

// Add schedules a subject to be judged. A set that has ended ignores it.
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

// End gives up all subjects, cancels the open question, and waits until no question is
// running.
func (s *Set[T]) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// run asks until no subject is left.
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

// round asks once about each subject. It returns one of the errors if a subject could not be
// judged.
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

// judged removes a subject, unless it was added again after the question.
func (s *Set[T]) judged(subject T, added uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[subject] == added {
		delete(s.left, subject)
	}
}

// rest returns how many subjects are left. If there are none, the run ends.
func (s *Set[T]) rest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = len(s.left) > 0
	return len(s.left)
}
