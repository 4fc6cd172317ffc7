package recent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/recent"
)

// TestValue: a value is made once for all who ask within its age, also if that fails, and whoever
// leaves stops waiting.
func TestValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		v := recent.New(time.Second, func(context.Context) (int, error) {
			made++
			time.Sleep(3 * time.Second) // virtual time
			return made, errors.New("no")
		})
		for range 5 {
			go func() { _, _ = v.Get(t.Context()) }()
		}
		synctest.Wait()
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := v.Get(left); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has left gets %v", err)
		}
		if n, err := v.Get(t.Context()); n != 1 || err == nil {
			t.Errorf("got %d, %v", n, err)
		}
		time.Sleep(time.Second)
		if n, _ := v.Get(t.Context()); n != 2 {
			t.Errorf("got the value number %d when it was old", n)
		}
	})
}
