package adminlink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/health"
)

// TestTrouble: a report about Envoy arrives within the time between two pings. When the
// link ends, the problem is no longer reported.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		state := ""
		s := newServer(t, Options{Report: func(node string, r Report) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, fmt.Sprint(node, ": ", r.Trouble))
		}})
		agent := &Client{Report: func(context.Context) Report {
			mu.Lock()
			defer mu.Unlock()
			return Report{Trouble: state}
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

// TestReport: everything that an agent reports arrives, within bounds. Older agents and
// older control planes are understood as before.
func TestReport(t *testing.T) {
	long := strings.Repeat("x", 2*maxReason)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := Report{Trouble: "it hangs", NotReady: "envoy away", Conditions: []health.Condition{
		{Name: "token", State: health.Degraded, Reason: "ends_soon", Text: "put a new one there", Since: at}, {Name: "disk", State: health.Failed, Since: at},
	}}
	many := Report{Trouble: long, NotReady: long}
	for range 2 * maxConditions {
		many.Conditions = append(many.Conditions, health.Condition{Name: long, State: "good", Reason: long, Text: long})
	}
	bounded := many
	bounded.Conditions = slices.Clone(many.Conditions)
	bounded.bound()
	for name, tc := range map[string]struct {
		said Report
		ping []byte
		want Report
	}{
		"a report":                   {said, reports, said},
		"nothing":                    {Report{}, reports, Report{}},
		"too much":                   {many, reports, bounded},
		"a control plane of before":  {said, nil, Report{Trouble: "it hangs"}},
		"one that wants other forms": {said, []byte("more"), Report{Trouble: "it hangs"}},
	} {
		got := parseReport(tc.said.encode(tc.ping))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := parseReport([]byte("{it hangs")); got.Trouble != "{it hangs" || got.Conditions != nil {
		t.Errorf("%+v", got)
	}
	if len(bounded.Conditions) != maxConditions || len(bounded.Conditions[0].Text) != maxReason || bounded.Conditions[0].State != health.Degraded {
		t.Errorf("%+v", bounded)
	}
}
