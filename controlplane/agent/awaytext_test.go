package agent

import (
	"context"
	"strings"
	"testing"
)

// TestTextOfSilence: a text that ends with a question mark gets no full stop.
func TestTextOfSilence(t *testing.T) {
	f := (&Agent{}).away(context.DeadlineExceeded)
	if want := "overloaded? " + meanwhile; !strings.HasSuffix(f.Text, want) {
		t.Error(f.Text)
	}
}
