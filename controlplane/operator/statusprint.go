package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/inspect"
)

// columns are the columns of the table of nodes. Scripts read them, so none may be renamed
// or moved. More may be added before the last one.
const columns = "NAME\tTYPE\tSTATE\tSINCE\tDESIRED\tACKNOWLEDGED\tREJECTED\tENVOY\tCERTIFICATE\tTOKEN\tREASON"

// printTable prints what is wrong, one line for each node, a summary, and which policies refuse
// everybody.
func printTable(out io.Writer, l fleetStatus) error {
	if err := printTroubles(out, l.troubles()); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, columns)
	for i := range l.nodes {
		n := &l.nodes[i]
		printRow(w,
			n.Name, n.Type, n.State, stamp(n.Since), fmt.Sprint(n.Revisions.Desired), fmt.Sprint(n.Revisions.Acknowledged),
			fmt.Sprint(len(n.Rejected)), n.Versions.Envoy, stamp(n.CertificateExpires), stamp(n.TokenExpires), because(n),
		)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s := l.summary()
	silent := ""
	if s.Silent > 0 {
		silent = fmt.Sprintf("the Envoys of %d do not answer, ", s.Silent)
	}
	if _, err := fmt.Fprintf(out, "%d nodes: %d connected (%s%d refuse configuration, %d are behind), %d away, %d away and refused\n",
		len(l.nodes), s.Connected, silent, s.Rejecting, s.Behind, s.Away, s.Refused); err != nil {
		return err
	}
	return printRefusing(out, l.closed)
}

func stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// because tells why a node is not in order.
func because(n *nodes.Node) string {
	var out []string
	if n.Reason != "" {
		out = append(out, n.Reason)
	}
	if n.Trouble != nil {
		out = append(out, n.Trouble.Reason)
	}
	if n.Trouble == nil && n.NotReady != "" {
		out = append(out, "not ready: "+n.NotReady)
	}
	for _, c := range n.Conditions {
		out = append(out, c.Name+" "+string(c.State)+": "+cmp.Or(c.Text, c.Reason))
	}
	if n.State != insight.Refused && n.Refusal != nil {
		out = append(out, "somebody was refused by its name: "+n.Refusal.Reason)
	}
	if len(n.Rejected) > 0 {
		out = append(out, "refuses "+rejection(n))
	}
	return strings.Join(out, "; ")
}

// rejection describes the first resource that a node rejects, in the node's own words.
func rejection(n *nodes.Node) string {
	r := n.Rejected[0]
	text := strings.TrimSpace(r.Type+" "+strings.Join(r.Resources, ", ")) + ": " + r.Error
	if more := len(n.Rejected) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// printJSON prints a status as one JSON document.
func printJSON(out io.Writer, l fleetStatus) error {
	list := l.nodes
	if list == nil {
		list = []nodes.Node{}
	}
	return printAll(out, struct {
		Nodes      []nodes.Node       `json:"nodes"`
		Summary    summary            `json:"summary"`
		Message    string             `json:"message"`
		Conditions []health.Condition `json:"conditions"`
		Refusing   []inspect.Warned   `json:"refusing,omitempty"`
	}{list, l.summary(), l.conditions.Message, l.conditions.Conditions, l.closed.list})
}

// printAll prints a value as one line of JSON.
func printAll(out io.Writer, what any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(what)
}
