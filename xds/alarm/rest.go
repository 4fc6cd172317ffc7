package alarm

import (
	"context"
	"time"
)

// Rest waits for a pause. It returns the error of ctx if that ends first. Unlike [Wait] it
// counts the time that the host is awake, which is right for a pause before the next attempt.
func Rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Sooner returns the earlier of two times. The zero time means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
