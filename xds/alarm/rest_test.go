package alarm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
)

// TestRest: a rest lasts for its pause, and ends before with the error of its context.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := alarm.Rest(t.Context(), time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := alarm.Rest(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Hour+time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// TestSooner: the zero time means never, on either side.
func TestSooner(t *testing.T) {
	var never time.Time
	one, two := time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range []struct{ a, b, want time.Time }{
		{one, two, one}, {two, one, one}, {one, never, one}, {never, one, one}, {never, never, never},
	} {
		if got := alarm.Sooner(test.a, test.b); !got.Equal(test.want) {
			t.Errorf("of %s and %s %s is sooner", test.a, test.b, got)
		}
	}
}
