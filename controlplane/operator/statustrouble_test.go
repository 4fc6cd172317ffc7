package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// TestTroubles: the worst comes first; an outage of many is one line with the earliest
// time, and who is named is few.
func TestTroubles(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := fleetStatus{conditions: health.Report{Answer: health.Answer{Message: health.Ready, Conditions: []health.Condition{
		{Name: "redis", State: health.Degraded, Text: "away", Since: begin}, {Name: "store", State: health.OK, Since: begin},
		{Name: nodes.Condition, State: health.Degraded, Text: "what is said of each below", Since: begin},
	}}}}
	for i := range 1000 {
		at := begin.Add(time.Duration(1000-i) * time.Second)
		l.nodes = append(l.nodes, nodes.Node{Name: fmt.Sprintf("m.n%03d", i), State: insight.Away, Since: &at, Reason: "it left"})
	}
	l.nodes = append(l.nodes,
		nodes.Node{Name: "m.never", State: insight.Away, Reason: "never"},
		nodes.Node{Name: "m.barred", State: insight.Away, Since: &begin, Reason: "it left", Refusal: &insight.Refusal{Since: begin, Reason: "key 3 is gone"}},
		nodes.Node{Name: "m.renewed", State: insight.Away, Since: &begin, Reason: "the node has a newer token", Returning: true},
		nodes.Node{Name: "m.behind", State: insight.Connected, Since: &begin, Revisions: nodes.Revisions{Desired: 9, Acknowledged: 7}},
		nodes.Node{Name: "m.behind2", State: insight.Connected, Since: &begin, Revisions: nodes.Revisions{Desired: 9, Acknowledged: 6}},
		nodes.Node{Name: "m.odd", State: insight.Connected, Rejected: []insight.Rejected{{Type: "Cluster", Error: "no"}}, Revisions: nodes.Revisions{Desired: 9, Acknowledged: 8}},
		nodes.Node{Name: "m.part", State: insight.Connected, InStep: true, Problems: []string{"inbound 80: a mistake", "route x: kept"}},
		nodes.Node{Name: "m.out", State: insight.Refused, Since: &begin, Reason: "expired"},
		nodes.Node{Name: "m.hangs", State: insight.Connected, Since: &begin, Trouble: &insight.Trouble{Since: begin.Add(time.Minute), Reason: "its Envoy does not answer"}},
		nodes.Node{Name: "m.starts", State: insight.Connected, InStep: true, NotReady: "starting", NotReadySince: new(begin.Add(2 * time.Minute))},
		nodes.Node{Name: "m.ends", State: insight.Connected, InStep: true, Conditions: []health.Condition{{Name: "token", State: health.Degraded, Reason: "ends_soon", Text: "put one there", Since: begin.Add(time.Hour)}}},
		nodes.Node{Name: "m.ends2", State: insight.Connected, InStep: true, Conditions: []health.Condition{{Name: "token", State: health.Degraded, Reason: "ends_soon", Text: "or there", Since: begin}}},
		nodes.Node{Name: "m.good", State: insight.Connected, InStep: true},
	)
	var got []string
	for _, t := range l.troubles() {
		got = append(got, strings.Join([]string{t.what, t.began(), t.concerned(), t.why}, "|"))
	}
	want := []string{
		"redis degraded|2026-03-01T12:00:00Z|control plane|away",
		"envoy away|2026-03-01T12:01:00Z|m.hangs|its Envoy does not answer",
		"refused|2026-03-01T12:00:00Z|m.out|expired",
		"refuses configuration|revision 8|m.odd|Cluster: no",
		"not applied||m.part|inbound 80: a mistake; route x: kept",
		"not ready|2026-03-01T12:02:00Z|m.starts|starting",
		"away|2026-03-01T12:00:01Z|m.n000, m.n001, m.n002 and 997 more|it left",
		"away||m.never|never",
		"away|2026-03-01T12:00:00Z|m.barred|it left; somebody was refused by its name: key 3 is gone",
		"behind|revision 6|m.behind, m.behind2|it has not acknowledged everything, for a moment after each change; if it lasts: meshgate changes --since REVISION",
		"token degraded|2026-03-01T12:00:00Z|m.ends, m.ends2|put one there",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if clitest.Code(l.verdict()) != ExitUneven || clitest.Code(fleetStatus{conditions: health.Report{Answer: health.Answer{Message: health.Ready}}}.verdict()) != 0 {
		t.Error("the code")
	}
	if clitest.Code((fleetStatus{}).verdict()) != ExitUneven {
		t.Error("nothing was said of the control plane, and that passes for all is well")
	}
}
