// Package recent keeps a value that is made anew when somebody asks for it and it is too old, such
// as a page of metrics. Whoever asks needs no identity there, and making the page costs more than
// asking does: without an age, one client in a loop would keep the process busy.
package recent

import (
	"context"
	"time"
)

// Value is such a value. Only one caller makes it at a time, for all who wait. A failure is also
// told again.
type Value[T any] struct {
	age    time.Duration
	gather func(ctx context.Context) (T, error)
	// turn has one entry while nobody uses the other fields. Unlike with a mutex, a caller
	// that leaves stops waiting.
	turn chan struct{}
	made time.Time
	out  T
	err  error
}

// New returns a value that is told again until it has an age.
func New[T any](age time.Duration, gather func(ctx context.Context) (T, error)) *Value[T] {
	v := &Value[T]{age: age, gather: gather, turn: make(chan struct{}, 1)}
	v.turn <- struct{}{}
	return v
}

// Get returns the value. The first caller does not abort the making by leaving. The error is
// that of ctx, or of the making.
func (v *Value[T]) Get(ctx context.Context) (out T, err error) {
	select {
	case <-v.turn:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	defer func() { v.turn <- struct{}{} }()
	if v.made.IsZero() || time.Since(v.made) >= v.age {
		v.out, v.err = v.gather(context.WithoutCancel(ctx))
		v.made = time.Now() // a slow value is not made again for each of those who waited
	}
	return v.out, v.err
}
