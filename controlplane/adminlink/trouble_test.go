package adminlink

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTrouble: what the agent says of its Envoy is heard within the time between two
// pings, and nothing is the matter any more, as far as anybody says, when the link ends.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		state := ""
		s := newServer(t, Options{Trouble: func(node, reason string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, fmt.Sprint(node, ": ", reason))
		}})
		agent := &Client{Trouble: func(context.Context) string {
			mu.Lock()
			defer mu.Unlock()
			return state
		}}
		expect := func(what string, want ...string) {
			t.Helper()
			time.Sleep(pingEvery + time.Second) // virtual time
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, heard); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			heard = nil
		}
		set := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			state = text
		}
		end := pipeTo(t, s, agent, "m.a")
		expect("all is well", "m.a: ")
		set("it hangs")
		expect("it hangs", "m.a: it hangs")
		old := end
		end = pipeTo(t, s, agent, "m.a")
		expect("a newer link", "m.a: it hangs")
		old()
		set("")
		expect("it is well again", "m.a: ")
		set("it hangs")
		expect("it hangs again", "m.a: it hangs")
		end()
		expect("the link ends", "m.a: ")
	})
}
