package operator

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

const statusHelp = `Say what is wrong, since when and whom it concerns; then list every node, connected or
away, how far it is and why it is away.

Policies that refuse everybody are named last. They do what they say, so they are not wrong
and do not change the exit code. Only the mesh API knows them.

With the NAME of a node: what it has. For each resource the version that it was sent,
whether its Envoy holds the same, and whether it acknowledged or rejected it.

Exit codes: 0 if nothing is wrong, 2 if something is, 1 if it cannot be said (--watch: at last).`

// ExitUneven says that something is wrong: a condition of the control plane, or a node that
// is away, rejects or is behind.
const ExitUneven = 2

// cannotSay ends `meshgate status` after an error. It sets the code because 2 has a
// different meaning there than elsewhere.
func cannotSay(err error) error {
	if _, coded := errors.AsType[cli.CodedError](err); coded || err == nil {
		return err
	}
	return cli.CodedError{Code: cli.ExitFailed, Text: err.Error()}
}

// StatusCommand shows which nodes exist and what is wrong.
func StatusCommand() *cobra.Command {
	var output *string
	var api *apiFlags
	var watch, diff bool
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Say what is wrong, and which nodes are connected, away, refused or behind",
		Long:  statusHelp,
		Example: `  meshgate status
  meshgate status cp/default/edge --diff
  meshgate status --address https://cp.example:8444 --ca-cert-file ca.pem --token-file token`,
		Args: func(c *cobra.Command, args []string) error { return cannotSay(cli.Wants(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case diff && (watch || len(args) == 0):
				return cannotSay(errors.New("--diff is for one node: give its name, and leave out --watch"))
			case diff:
				return cannotSay(showDifference(c, api, args[0], *output))
			case len(args) == 1:
				return cannotSay(showNode(c, api, args[0], *output, watch))
			}
			return cannotSay(showStatus(c, api, *output, watch))
		},
	}
	output, api = addOutputFlag(c), addAPIFlags(c)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and print the state anew when it changes")
	c.Flags().BoolVar(&diff, "diff", false, "compare what a node should have, was sent and has acknowledged")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return cannotSay(cli.BadFlag(c, err)) })
	return c
}

func showStatus(c *cobra.Command, f *apiFlags, output string, watch bool) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	r := &roster{api: api, print: printTable, out: c.OutOrStdout()}
	if output == asJSON {
		r.print = printJSON
	}
	r.clear = watch && output == asTable && cli.IsTerminal(r.out)
	if watch {
		return r.watch(c.Context())
	}
	return r.once(c.Context())
}

// fleetStatus is the content of a status.
type fleetStatus struct {
	nodes      []nodes.Node
	conditions health.Report
	closed     closed
}

// summary counts the nodes of a list. Nodes whose Envoy does not answer, that reject or that
// are behind also count as connected.
type summary struct {
	Connected int `json:"connected"`
	Away      int `json:"away"`
	Refused   int `json:"refused"`
	Silent    int `json:"silent"`
	Rejecting int `json:"rejecting"`
	Behind    int `json:"behind"`
}

func (l fleetStatus) summary() (s summary) {
	for i := range l.nodes {
		n := &l.nodes[i]
		switch {
		case n.State == insight.Refused:
			s.Refused++
		case n.State != insight.Connected:
			s.Away++
		case n.Trouble != nil:
			s.Silent++
		case len(n.Rejected) > 0:
			s.Rejecting++
		case !n.InStep:
			s.Behind++
		}
	}
	s.Connected = len(l.nodes) - s.Away - s.Refused
	return s
}

// verdict returns the error that ends the program with the exit code for a status.
func (l fleetStatus) verdict() error {
	if len(l.troubles()) > 0 {
		return cli.CodedError{Code: ExitUneven}
	}
	return nil
}
