package identity

import (
	"testing"
	"time"
)

// TestRenewed: a node has renewed its token once it has shown a good token of another key.
// Tokens that have ended, and unknown nodes, do not count.
func TestRenewed(t *testing.T) {
	now := time.Now()
	u := NewUses(func() time.Time { return now })
	expect := func(when, key string, want bool) {
		t.Helper()
		if got := u.Renewed("cp/default/g", key); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	expect("nothing is known", "1", false)
	u.Linked("cp/default/g", "1", now.Add(time.Hour))
	expect("it holds this one", "1", false)
	u.Linked("cp/default/g", "2", now.Add(time.Hour))
	expect("it holds another one", "1", true)
	expect("it holds this one now", "2", false)
	expect("no key at all", "", false)
	u.Streamed("cp/default/g", "1", now.Add(time.Hour))
	expect("a stream is no news of a node with an agent", "1", true)
	now = now.Add(2 * time.Hour)
	expect("that has ended", "1", false)
}
