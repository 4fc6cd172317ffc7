package operator

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// trouble is one thing that is wrong. Nodes of which the same is to be said are one: an
// outage is one line, not a thousand.
type trouble struct {
	what string
	// since is the earliest time at which it began, or where that is not known of a
	// connected node, the least revision of which it holds everything.
	since    *time.Time
	revision uint64
	whom     []string
	why      string
}

// The order in which troubles are told, the worst first, and their names.
const (
	wrongReady     = "not ready"
	wrongSilent    = "envoy away"
	wrongRefused   = "refused"
	wrongRejecting = "refuses configuration"
	wrongUnapplied = "not applied"
	wrongAway      = "away"
	wrongBehind    = "behind"
)

// itself is who is concerned by conditions.
const itself = "control plane"

// maxWhom is how many nodes a trouble names.
const maxWhom = 3

// troubles are all things that are wrong.
func (l fleetStatus) troubles() []*trouble {
	out := ofControlPlane(l.conditions)
	of := map[string]*trouble{}
	for _, what := range []string{wrongSilent, wrongRefused, wrongRejecting, wrongUnapplied, wrongReady, wrongAway, wrongBehind} {
		var group []*trouble
		for i := range l.nodes {
			n := &l.nodes[i]
			wrong, why := wrongWith(n)
			if wrong != what {
				continue
			}
			t := of[wrong+why]
			if t == nil {
				t = &trouble{what: wrong, why: why, revision: n.Revisions.Acknowledged}
				of[wrong+why], group = t, append(group, t)
			}
			t.add(n)
		}
		slices.SortStableFunc(group, func(a, b *trouble) int { return cmp.Compare(len(b.whom), len(a.whom)) })
		out = append(out, group...)
	}
	return append(out, l.saidByAgents()...)
}

// saidByAgents are the conditions of proxies. Those of one reason are one trouble with the
// text of the first, because texts name files and times.
func (l fleetStatus) saidByAgents() (out []*trouble) {
	of := map[[3]string]*trouble{}
	for i := range l.nodes {
		n := &l.nodes[i]
		for _, c := range n.Conditions {
			key := [3]string{c.Name, string(c.State), c.Reason}
			t := of[key]
			if t == nil {
				t = &trouble{what: c.Name + " " + string(c.State), why: cmp.Or(c.Text, c.Reason)}
				of[key], out = t, append(out, t)
			}
			t.whom = append(t.whom, n.Name)
			if t.since == nil || c.Since.Before(*t.since) {
				t.since = &c.Since
			}
		}
	}
	return out
}

// ofControlPlane are the troubles of the control plane: it is not ready, a condition has failed, or is
// degraded.
func ofControlPlane(l health.Report) (out []*trouble) {
	if m := l.Message; m != health.Ready && (m == "" || m != health.Failure(l.Conditions)) {
		out = append(out, &trouble{what: wrongReady, whom: []string{itself}, why: m})
	}
	for _, state := range []health.State{health.Failed, health.Degraded} {
		for _, c := range l.Conditions {
			if c.State == state && c.Name != nodes.Condition { // each node says more of itself
				out = append(out, &trouble{what: c.Name + " " + string(c.State), since: &c.Since, whom: []string{itself}, why: c.Text})
			}
		}
	}
	return out
}

// wrongWith says what is wrong with a node, and why; empty if nothing is.
func wrongWith(n *nodes.Node) (what, why string) {
	switch {
	case n.State == insight.Refused:
		return wrongRefused, n.Reason
	case n.Returning:
		return "", ""
	case n.State != insight.Connected:
		return wrongAway, because(n)
	case n.Trouble != nil:
		return wrongSilent, n.Trouble.Reason
	case len(n.Rejected) > 0:
		return wrongRejecting, rejection(n)
	case len(n.Problems) > 0:
		return wrongUnapplied, strings.Join(n.Problems, "; ")
	case n.NotReady != "":
		return wrongReady, n.NotReady
	case !n.InStep:
		return wrongBehind, "it has not acknowledged everything, for a moment after each change; if it lasts: meshgate changes --since REVISION"
	}
	return "", ""
}

// add has a trouble concern one node more.
func (t *trouble) add(n *nodes.Node) {
	t.whom = append(t.whom, n.Name)
	t.revision = min(t.revision, n.Revisions.Acknowledged)
	connected := n.State == insight.Connected // since when it is that, not since when it is wrong
	since := n.Since
	switch {
	case n.Trouble != nil:
		since = &n.Trouble.Since
	case t.what == wrongReady:
		since = n.NotReadySince
	case connected:
		since = nil
	}
	if since != nil && (t.since == nil || since.Before(*t.since)) {
		t.since = since
	}
}

// began says since when.
func (t *trouble) began() string {
	if t.what == wrongRejecting || t.what == wrongBehind {
		return fmt.Sprintf("revision %d", t.revision)
	}
	return stamp(t.since)
}

// concerned says whom.
func (t *trouble) concerned() string {
	text := strings.Join(t.whom[:min(len(t.whom), maxWhom)], ", ")
	if more := len(t.whom) - maxWhom; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printTroubles says what is wrong, in a table.
func printTroubles(out io.Writer, list []*trouble) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "Nothing is wrong.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "WRONG\tSINCE\tWHOM\tWHY")
	for _, t := range list {
		printRow(w, t.what, t.began(), t.concerned(), t.why)
	}
	return w.Flush()
}

// printRow prints a row of a table.
func printRow(w io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(client.Plain(cells[i]), "-")
	}
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
}
