package operator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/inspect"
)

// showDifference prints what a node should have, was sent and has acknowledged. The error ends
// the program with its code.
func showDifference(c *cobra.Command, f *apiFlags, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	doc, _, err := ofNode(c.Context(), api, name, compared)
	if err != nil {
		return err
	}
	if output == asJSON {
		err = printAll(c.OutOrStdout(), doc)
	} else {
		err = printCompared(c.OutOrStdout(), doc)
	}
	if err == nil && !doc.Acknowledged {
		return cli.CodedError{Code: ExitUneven}
	}
	return err
}

// compared asks for a comparison with the difference.
func compared(ctx context.Context, api *client.Client, name string) (doc nodes.Comparison, err error) {
	err = api.Get(ctx, "/nodes/"+url.PathEscape(name)+"/config", url.Values{nodes.ParamInclude: {nodes.IncludeDiff}}, &doc)
	return doc, err
}

func printCompared(out io.Writer, doc nodes.Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TYPE\tNAME\tDESIRED\tSENT\tACKNOWLEDGED\tSTATE\tERROR")
	counts := map[string]int{}
	for _, r := range doc.Resources {
		counts[r.State]++
		cells := []string{r.Type[strings.LastIndexByte(r.Type, '.')+1:], r.Name, brief(r.Desired), brief(r.Sent), brief(r.Acknowledged), r.State, r.Error}
		for i := range cells {
			cells[i] = cmp.Or(client.Plain(cells[i]), "-")
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range doc.Resources {
		if len(r.Diff) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(out, "\n%s %s\n", client.Plain(r.Type), client.Plain(r.Name))
		for _, e := range r.Diff {
			line := fmt.Sprintf("  %s %s %s", client.Plain(e.Op), client.Plain(e.Path), client.Plain(string(e.Value)))
			_, _ = fmt.Fprintln(out, strings.TrimRight(line, " "))
		}
	}
	if doc.Problem != "" {
		_, _ = fmt.Fprintf(out, "it cannot be said what is desired: %s\n", client.Plain(doc.Problem))
	}
	_, err := fmt.Fprintf(out, "%s, %s: %d resources: %d acknowledged, %d sent and not answered, %d rejected, %d due\n",
		client.Plain(doc.Node), client.Plain(doc.State), len(doc.Resources),
		counts[inspect.Acknowledged], counts[inspect.Sent], counts[inspect.Rejected], counts[inspect.Due])
	return err
}

// brief returns the part of a version that a table shows.
func brief(version string) string { return version[:min(len(version), shortVersion)] }
