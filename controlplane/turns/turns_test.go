package turns

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// TestTurns: one caller works, one waits, and the next is refused at once. The turn then goes
// to the waiting caller.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Sized(1, 1)
		if err := q.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() { second <- q.Enter(t.Context()) }()
		synctest.Wait()
		if len(second) > 0 {
			t.Fatal("two work at once")
		}
		if err := q.Enter(t.Context()); !errors.Is(err, ErrFull) || !fault.Is(err, fault.Unavailable) || fault.AfterOf(err) != time.Second {
			t.Errorf("a third: %v", err)
		}
		if q.TryEnter() {
			t.Error("a third gets in")
		}
		q.Leave()
		if err := <-second; err != nil {
			t.Error(err)
		}
		if q.TryEnter() {
			t.Error("it is let in beside the second")
		}
		q.Leave()
		if !q.TryEnter() {
			t.Error("it is not let in when nobody is there")
		}
		q.Leave()
		q.empty(t)
	})
}

// TestWaitingEndsWithTheRequest: a caller that goes away gives up its place.
func TestWaitingEndsWithTheRequest(t *testing.T) {
	q := Sized(1, 1)
	if err := q.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Enter(ctx); !fault.Is(err, fault.Unavailable) || errors.Is(err, ErrFull) || fault.AfterOf(err) != time.Second {
		t.Errorf("%v", err)
	}
	q.Leave()
	q.empty(t)
}

// TestProcessorsStayFree: work leaves half of the processors to others.
func TestProcessorsStayFree(t *testing.T) {
	if n := cap(New(3).running); n < 1 || n >= runtime.GOMAXPROCS(0) && n > 1 {
		t.Errorf("%d work at once on %d processors", n, runtime.GOMAXPROCS(0))
	}
}

func (q *Queue) empty(t *testing.T) {
	t.Helper()
	if len(q.places) != 0 || len(q.running) != 0 {
		t.Errorf("%d places and %d turns are taken", len(q.places), len(q.running))
	}
}
