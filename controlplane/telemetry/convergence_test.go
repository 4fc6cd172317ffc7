package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func read(t *testing.T, m prometheus.Metric) *dto.Metric {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func (c *Convergence) expect(t *testing.T, h prometheus.Histogram, count uint64, sum time.Duration) {
	t.Helper()
	got := read(t, h).Histogram
	if d := time.Duration(got.GetSampleSum() * float64(time.Second)); got.GetSampleCount() != count || (d-sum).Abs() > time.Microsecond {
		t.Errorf("%s: %d samples of %s, want %d of %s", h.Desc(), got.GetSampleCount(), d, count, sum)
	}
}

// TestConvergence measures each commit once, from its end to each stage, in virtual time.
func TestConvergence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := func(d time.Duration) func(context.Context, uint64) error {
			return func(ctx context.Context, _ uint64) error {
				select {
				case <-time.After(d):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		c := NewConvergence()
		c.Note(4, time.Now()) // a commit of the start
		c.Begin(4)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx, Spread{after(2 * time.Second), after(3 * time.Second)}) }()
		c.Told(5) // the feed was faster
		c.Note(5, time.Now())
		c.Note(5, time.Now()) // a commit that announced nothing
		c.Note(3, time.Now())
		synctest.Wait()
		time.Sleep(6 * time.Second)
		c.Note(6, time.Now())
		time.Sleep(time.Second)
		c.Told(7)
		time.Sleep(10 * time.Second)
		c.expect(t, c.feed, 2, time.Second)
		c.expect(t, c.published, 2, 4*time.Second)
		c.expect(t, c.acknowledged, 2, 10*time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestOneThatHangsHidesNoOther: while a proxy does not answer for a commit, later commits
// are measured by what they took themselves. Otherwise each would seem to be published as
// late as that proxy answers, and point an investigation at the wrong part.
func TestOneThatHangsHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := NewConvergence()
		c.Begin(0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.Run(ctx, Spread{
				Published: func(ctx context.Context, _ uint64) error { return after(ctx, time.Second) },
				Acknowledged: func(ctx context.Context, revision uint64) error {
					return after(ctx, map[bool]time.Duration{true: time.Hour, false: time.Second}[revision == 1])
				},
			})
		}()
		c.Note(1, time.Now())
		for r := range uint64(maxFollowed + 10) {
			time.Sleep(10 * time.Millisecond)
			c.Note(2+r, time.Now())
		}
		time.Sleep(10 * time.Second)
		c.expect(t, c.published, maxFollowed+11, (maxFollowed+11)*time.Second)
		c.expect(t, c.acknowledged, maxFollowed+10, (maxFollowed+10)*2*time.Second)
		cancel()
		<-ended
	})
}

// TestConvergenceThatDoesNotCome: a proxy that never answers counts as late, and measuring
// goes on. Commits that cannot be measured count as skipped.
func TestConvergenceThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(ctx context.Context, revision uint64) error {
			if revision == 2 {
				return errors.New("the store is closed")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		c := NewConvergence()
		c.Begin(0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx, Spread{func(context.Context, uint64) error { return nil }, never}) }()
		c.Note(1, time.Now())
		time.Sleep(2 * spreadTime)
		c.Note(2, time.Now())
		synctest.Wait()
		c.expect(t, c.acknowledged, 1, spreadTime)
		if got := read(t, c.skipped).Counter.GetValue(); got != 1 {
			t.Errorf("%v skipped", got)
		}
		c.Note(3, time.Now())
		for r := range uint64(maxPending + 10) {
			c.Note(4+r, time.Now())
		}
		if got := read(t, c.skipped).Counter.GetValue(); got < 10 {
			t.Errorf("%v skipped of a flood", got)
		}
		cancel()
		<-ended
		c.expect(t, c.acknowledged, 1, spreadTime)
	})
}
