package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// columns of the table. Scripts read them: none is renamed or moved, more may follow
// before the last.
const columns = "NAME\tTYPE\tSTATE\tSINCE\tDESIRED\tACKNOWLEDGED\tREJECTED\tENVOY\tCERTIFICATE\tTOKEN\tREASON"

// printTable prints a line for each node, and a summary.
func printTable(out io.Writer, l fleetStatus) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, columns)
	for i := range l.nodes {
		n := &l.nodes[i]
		cells := []string{
			n.Name, n.Type, n.State, stamp(n.Since), fmt.Sprint(n.Revisions.Desired), fmt.Sprint(n.Revisions.Acknowledged),
			fmt.Sprint(len(n.Rejected)), n.Versions.Envoy, stamp(n.CertificateExpires), stamp(n.TokenExpires), because(n),
		}
		for i := range cells {
			cells[i] = cmp.Or(plain(cells[i]), "-")
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s := l.summary()
	_, err := fmt.Fprintf(out, "%d nodes: %d connected (%d refuse configuration, %d are behind), %d away, %d away and refused\n",
		len(l.nodes), s.Connected, s.Rejecting, s.Behind, s.Away, s.Refused)
	return err
}

func stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// because says why a node is not in order.
func because(n *nodes.Document) string {
	var out []string
	if n.Reason != "" {
		out = append(out, n.Reason)
	}
	if n.State == insight.Connected && n.Refusal != nil {
		out = append(out, "somebody was refused by its name: "+n.Refusal.Reason)
	}
	if len(n.Rejected) > 0 {
		r := n.Rejected[0]
		text := strings.TrimSpace("refuses "+r.Type+" "+strings.Join(r.Resources, ", ")) + ": " + r.Error
		if more := len(n.Rejected) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// plain is a text of unknown origin as a terminal may show it: one line, and nothing
// that moves the cursor.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// printJSON prints one document.
func printJSON(out io.Writer, l fleetStatus) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	list := l.nodes
	if list == nil {
		list = []nodes.Document{}
	}
	return e.Encode(struct {
		Nodes   []nodes.Document `json:"nodes"`
		Summary summary          `json:"summary"`
	}{list, l.summary()})
}
