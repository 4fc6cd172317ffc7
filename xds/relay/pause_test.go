package relay

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// TestPauses: the pauses begin anew when the control plane let the proxy in, but not when it sent
// too much.
func TestPauses(t *testing.T) {
	for _, c := range []struct {
		heard bool
		code  codes.Code
		want  time.Duration
	}{
		{false, codes.Unavailable, time.Second}, {true, codes.Unavailable, firstPause}, {true, codes.Unauthenticated, firstPause},
		{true, codes.ResourceExhausted, time.Second}, {false, codes.ResourceExhausted, time.Second},
	} {
		if got := pauseAfter(time.Second, c.heard, c.code); got != c.want {
			t.Errorf("let in %v, %s: %s", c.heard, c.code, got)
		}
	}
}
