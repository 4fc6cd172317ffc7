package rejudge_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/rejudge"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("the store is away")

// TestPauses: the pauses between questions about a subject grow, each failed round is reported
// once, and a judged subject is not asked about again.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked, told []time.Duration
		s := rejudge.New(func(_ context.Context, subject string) error {
			if subject == "a" {
				asked = append(asked, time.Since(start))
			}
			if time.Since(start) < 12*time.Second {
				return errAway
			}
			return nil
		}, func(left int, again time.Duration, err error) {
			if left != 2 || !errors.Is(err, errAway) {
				t.Errorf("%d are left: %v", left, err)
			}
			told = append(told, again)
		})
		defer s.End()
		s.Add("a")
		s.Add("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		const ms = time.Millisecond
		if want := []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms, 16300 * ms}; !slices.Equal(asked, want) {
			t.Errorf("asked at %v", asked)
		}
		if want := []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}; !slices.Equal(told, want) {
			t.Errorf("told %v", told)
		}
		asked = nil
		s.Add("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []time.Duration{time.Hour + rejudge.First}; !slices.Equal(asked, want) {
			t.Errorf("when added again it was asked about at %v", asked)
		}
	})
}

// TestRemoved: nobody asks about a removed subject.
func TestRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rejudge.New(func(context.Context, int) error { t.Error("asked"); return nil }, nil)
		s.Add(1)
		s.Remove(1)
		time.Sleep(time.Minute)
		s.End()
		s.Add(2)
		time.Sleep(time.Minute)
	})
}

// TestAddedWhileAsked: an answer tells nothing about events after its question.
func TestAddedWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan struct{})
		s := rejudge.New(func(context.Context, int) error { asked++; <-answer; return nil }, nil)
		defer s.End()
		s.Add(1)
		time.Sleep(time.Second)
		s.Add(1)
		close(answer)
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestEnd: neither a hanging question nor a pause delays an end. Nothing is reported about the
// subjects that were given up.
func TestEnd(t *testing.T) {
	for name, judge := range map[string]func(context.Context, int) error{
		"a question": func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		"a pause":    func(context.Context, int) error { return errAway },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := false
				s := rejudge.New(judge, func(int, time.Duration, error) {
					if ended {
						t.Error("told of it")
					}
				})
				s.Add(1)
				s.Add(2)
				time.Sleep(time.Minute)
				synctest.Wait()
				start := time.Now()
				ended = true
				s.End()
				s.End()
				if took := time.Since(start); took != 0 {
					t.Errorf("the end took %v", took)
				}
			})
		})
	}
}
