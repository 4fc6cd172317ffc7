package operator

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/inspect/explain"
)

// ExplainCommand shows what becomes of an imagined request, and what decides at each step.
func ExplainCommand() *cobra.Command {
	var method, host, path, output *string
	var headers *[]string
	var api *apiFlags
	c := &cobra.Command{
		Use:   "explain MESH.DATAPLANE DESTINATION | HOST",
		Short: "Show what becomes of an imagined request, and why",
		Long: `Show what becomes of a request that the workload of a dataplane sends to a service, or to
host:port, and which policy decides at each step; or, with a host alone and the address of
the administration API, what a gateway does with a request for it. No request is sent.
Tokens are not taken here, because other users of the machine could read them.`,
		Example: `  meshgate explain shop.web-1 backend --path /orders
  meshgate explain shop.example --path /orders --address http://127.0.0.1:8001`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(*output); err != nil {
				return err
			}
			query := url.Values{explain.ParamHeader: *headers}
			for name, value := range map[string]string{explain.ParamMethod: *method, explain.ParamHost: *host, explain.ParamPath: *path} {
				if value != "" {
					query.Set(name, value)
				}
			}
			at, err := askedRequest(args, query)
			if err != nil {
				return err
			}
			return showExplanation(c, api, at, query, *output)
		},
	}
	method, path = c.Flags().String("method", "", "the method; empty: GET"), c.Flags().String("path", "", "the path with its query; empty: /")
	host = c.Flags().String("host", "", "the host of a request in a mesh; empty: the destination")
	headers = c.Flags().StringArray("header", nil, "a header as name:value; may be given more than once")
	output, api = addOutputFlag(c), addAPIFlags(c)
	return c
}

// askedRequest returns the path of the endpoint, and completes the query.
func askedRequest(args []string, query url.Values) (path string, err error) {
	if len(args) == 1 {
		query.Set(explain.ParamHost, args[0])
		return "/gateway-explain", nil
	}
	mesh, source, ok := strings.Cut(args[0], ".")
	if !ok || mesh == "" || source == "" {
		return "", fault.NotBegun(fmt.Errorf("%q is no MESH.DATAPLANE, such as shop.web-1", args[0]))
	}
	query.Set(explain.ParamSource, source)
	query.Set(explain.ParamDestination, args[1])
	return "/meshes/" + url.PathEscape(mesh) + "/explain", nil
}

func showExplanation(c *cobra.Command, f *apiFlags, path string, query url.Values, output string) error {
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	var e explain.Explanation
	if err := api.Get(c.Context(), path, query, &e); err != nil {
		return err
	}
	if output == asJSON {
		return printAll(c.OutOrStdout(), &e)
	}
	return explanationTable(&e, c.OutOrStdout())
}

// explanationTable prints the steps in their order, and the outcomes behind them.
func explanationTable(e *explain.Explanation, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "PROXY\tSTEP\tDECIDED BY\tWHAT")
	steps := func(list []explain.Step) {
		for i := range list {
			s := &list[i]
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", client.Plain(s.Proxy), s.Step, decidedBy(s.Decided), client.Plain(s.Text))
		}
	}
	steps(e.Steps)
	for i := range e.Endpoints {
		x := &e.Endpoints[i]
		steps(x.Steps)
		_, _ = fmt.Fprintf(t, "%s\t%s\t%.4g %%\t%s\n", client.Plain(x.Address), x.Outcome.Verdict, x.Share, client.Plain(x.Outcome.Text))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	status := ""
	if e.Outcome.Status != 0 {
		status = fmt.Sprintf(" (%d)", e.Outcome.Status)
	}
	_, err := fmt.Fprintf(w, "\n%s%s: %s\n", e.Outcome.Verdict, status, client.Plain(e.Outcome.Text))
	return err
}

// decidedBy names resources in one cell.
func decidedBy(all []explain.Resource) string {
	parts := make([]string, len(all))
	for i, r := range all {
		parts[i] = client.Plain(r.Type + " " + r.Name)
	}
	return strings.Join(parts, ", ")
}
