package assembly

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
)

const (
	// nodesPause is how long further changes of nodes are waited for, so that a thousand
	// nodes that return together cause one look.
	nodesPause = 200 * time.Millisecond
	// maxTroubled is how many nodes the condition names.
	maxTroubled = 3
)

// watchNodes sets the condition of connected nodes, from what their agents report, until ctx
// ends.
func watchNodes(ctx context.Context, b *health.Board, insights *insight.Insights) {
	for ctx.Err() == nil {
		_, moved := insights.Moves() // taken before the nodes are read, so that no change is missed
		b.Set(conditionNodes, findingOfNodes(insights.Nodes()))
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
		pause := time.NewTimer(nodesPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// findingOfNodes returns the finding about connected nodes; nodes that are away are shown in
// other places. The worst trouble is the reason, in this order: an Envoy that is away, a
// proxy that is not ready, a condition.
func findingOfNodes(all []insight.Node) health.Finding {
	reasons := []string{"envoy_away", "not_ready", "degraded"}
	worst, count := len(reasons), 0
	var names []string
	for i := range all {
		n := &all[i]
		var at int
		var what string
		switch {
		case n.Trouble != nil:
			at, what = 0, n.Trouble.Reason
		case n.NotReady != "":
			at, what = 1, n.NotReady
		case len(n.Conditions) > 0:
			c := &n.Conditions[0]
			at, what = 2, strings.TrimSpace(c.Name+" "+cmp.Or(c.Reason, string(c.State)))
		default:
			continue
		}
		worst = min(worst, at)
		if count++; count <= maxTroubled {
			names = append(names, n.ID+": "+what)
		}
	}
	if count == 0 {
		return health.Finding{State: health.OK}
	}
	text := strings.Join(names, "; ")
	if more := count - maxTroubled; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return health.Finding{State: health.Degraded, Reason: reasons[worst], Text: fmt.Sprintf(
		"%d connected nodes say that something is the matter (%s). `meshgate status` says what and what to do, and so does /ready of each", count, text)}
}
