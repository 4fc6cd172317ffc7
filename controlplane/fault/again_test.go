package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// TestAfterOf: what a caller is told is the time of the first error in the chain that has one.
func TestAfterOf(t *testing.T) {
	full := New(Unavailable, "too many").Again(time.Second)
	for _, test := range []struct {
		err  error
		want time.Duration
	}{
		{nil, 0}, {io.EOF, 0}, {New(Unavailable, "no"), 0}, {full, time.Second}, {fmt.Errorf("so: %w", full), time.Second},
		{Wrap(Unavailable, full, "others ask"), time.Second}, {Wrap(Unavailable, full, "it is slow").Again(time.Minute), time.Minute},
		{Wrap(Internal, errors.Join(io.EOF, full), "two"), time.Second},
	} {
		if got := AfterOf(test.err); got != test.want {
			t.Errorf("%v: %s", test.err, got)
		}
	}
}
