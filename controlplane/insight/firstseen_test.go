package insight_test

import (
	"testing"
	"time"
)

// TestFirstSeen: when a node came first is remembered over its streams and restarts of the control
// plane, until the node is removed.
func TestFirstSeen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := time.Now().UTC()
		is := func(when string, want time.Time) {
			t.Helper()
			list := r.Nodes()
			if len(list) != 1 || !list[0].First.Equal(want) {
				t.Errorf("%s: %+v, want %s", when, list, want)
			}
		}
		r.Expect(gateway)
		is("it never came", time.Time{})
		r.Connected(of(gateway, 1))
		is("it is there", first)
		pass(time.Hour)
		r.Disconnected(of(gateway, 1))
		pass(time.Hour)
		is("it left", first)
		r.Connected(of(gateway, 2))
		is("it is back", first)
		for range 2 {
			r.close()
			r.open()
			is("the control plane was restarted", first)
		}
		for stream := range uint64(4) {
			pass(time.Hour)
			r.Connected(of(gateway, 10+stream))
			r.Disconnected(of(gateway, 10+stream))
		}
		is("it came often", first)
	})
}
