package snapshot

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// TestHasPluginWaitsForNobody: HasPlugin answers while a publication, or anybody else, holds
// the lock.
func TestHasPluginWaitsForNobody(t *testing.T) {
	table := resource.New(resource.Route, "r", []byte{1})
	table.Plugins = []string{"p"}
	s := New()
	s.Publish(map[string]*resource.Set{"n": resource.NewSet([]*resource.Resource{table}, nil), "gone": resource.NewSet([]*resource.Resource{table}, nil)}, 1)
	s.Drop("gone")
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for node, want := range map[string]bool{"n": true, "gone": false, "other": false} {
			if s.HasPlugin(node, "p") != want || s.HasPlugin(node, "q") {
				t.Errorf("%s: a wrong answer", node)
			}
			if s.HasPlugins(node) != want {
				t.Errorf("%s: carries plugins: %v", node, !want)
			}
		}
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
}
