package agent

import (
	"context"
	"strings"
	"testing"
)

// TestTextOfSilence: a question ends with its own mark.
func TestTextOfSilence(t *testing.T) {
	f := (&Agent{}).away(context.DeadlineExceeded)
	if want := "overloaded? " + meanwhile; !strings.HasSuffix(f.Text, want) {
		t.Error(f.Text)
	}
}
