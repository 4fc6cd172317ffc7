package assembly

import (
	"fmt"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/revoke"
)

// revocationsWait implements [revoke.Options.Waits]. It sets a condition while revocations
// are answered 503, so that operators know it before they try one.
func revocationsWait(b *health.Board) func(revoke.Waits) {
	return func(w revoke.Waits) {
		if !w.Any() {
			b.Good(conditionRevocations)
			return
		}
		f := waitTrouble(&w)
		f.State, f.Text = health.Degraded, "revocations are answered 503: "+f.Text
		b.Set(conditionRevocations, f)
	}
}

// waitTrouble says which gateways revocations wait for, and how the wait ends.
func waitTrouble(w *revoke.Waits) health.Finding {
	switch {
	case w.Strangers:
		return health.Finding{Reason: "gateways_unknown", Text: "this control plane may not remember every gateway that its predecessor let in, and they may read Redis until it was put in order once. The condition redis says what is wrong there"}
	case w.Away == "":
		return health.Finding{Reason: "not_confirmed", Text: fmt.Sprintf("%d of %d gateways are connected and do not confirm what they were told of Redis (%s). Look whether their agents can write their state directories (disk, rights); one that is restarted begins anew", w.Filters, w.Known, w.Linked)}
	case !w.Former:
		return health.Finding{Reason: "gateways_away", Text: fmt.Sprintf("Redis cannot be written, and %d of %d gateways that are away may go on reading it (%s). Put Redis in order (the condition redis says how), or %s", w.Filters, w.Known, nodesOf(w), waitEnds)}
	}
	since := "the control plane was restored or its Redis was replaced"
	if w.None {
		since = "Redis is not used any more"
	}
	return health.Finding{Reason: "gateways_away", Text: fmt.Sprintf("%d of %d gateways have not been in touch since %s, and may still read the former one (%s). To end that, %s", w.Filters, w.Known, since, nodesOf(w), waitEnds)}
}

// nodesOf names the gateways. Those that are away come first, because they prolong the wait.
func nodesOf(w *revoke.Waits) string {
	if w.Linked == "" {
		return w.Away
	}
	return w.Away + "; connected: " + w.Linked
}

// waitEnds says how to end the wait for a gateway that is away.
const waitEnds = "start each with its run directory or, if it is gone for good with its memory and its disk, say so with DELETE /nodes/{name}, and with ?former=true of the former processes of one that is connected. Otherwise it ends when they were not seen for a day"
