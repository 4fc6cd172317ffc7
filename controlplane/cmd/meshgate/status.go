package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

const statusHelp = `Say who is there: every node, connected or away, how far it is and why it is away.

The answer is that of GET /nodes. It is asked of the gateway administration API of the
settings (admin.listen, admin.port, admin.token or admin.tokenFile), or of --address,
which may be the mesh API, too.

With the NAME of a node: what it has. For each resource the version that it was sent,
whether its Envoy holds the same, and whether it acknowledged or rejected it.

Exit codes: 0 if everybody is connected and in step, 2 if somebody is away, refuses
configuration or is behind, 1 if it cannot be said. With --watch the last answer counts.`

// exitUneven says that somebody is away, refuses or is behind.
const exitUneven = 2

// apiSettings are those that mean something to a command that asks the administration
// API.
var apiSettings = []string{"admin.", "log."}

// codedError ends the program with a code, and with a line if it has a text.
type codedError struct {
	code int
	text string
}

func (e codedError) Error() string { return e.text }

// statusFlags are what only this command has.
type statusFlags struct {
	address, caFile, output string
	watch                   bool
}

func statusCommand() *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Say which nodes are connected, away or refused, and whether all are in step",
		Long:  statusHelp,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := load(c)
			if err != nil {
				return codedError{exitFailed, err.Error()} // 2 has another meaning here
			}
			s, err := newRoster(&l.Config, f, c.OutOrStdout())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return s.showNode(c.Context(), args[0], f.output == "json")
			}
			return s.run(c.Context())
		},
	}
	c.Flags().StringVar(&f.address, "address", "", "base URL of an API of the control plane; empty: the gateway administration API of the settings")
	c.Flags().StringVar(&f.caFile, "ca-cert-file", "", "PEM bundle that an https:// address is checked against; empty: the system's")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	c.Flags().BoolVar(&f.watch, "watch", false, "go on, and print the state anew when it changes")
	addFlags(c, apiSettings...)
	return c
}

// roster prints who is there.
type roster struct {
	client *nodesClient
	print  func(io.Writer, fleetStatus) error
	out    io.Writer
	watch  bool
	// clear says that the output is a terminal, which is drawn anew.
	clear bool
}

func newRoster(c *config.Config, f statusFlags, out io.Writer) (*roster, error) {
	s := &roster{out: out, watch: f.watch}
	switch f.output {
	case "table":
		s.print = printTable
	case "json":
		s.print = printJSON
	default:
		return nil, fmt.Errorf("--output %q is neither table nor json", f.output)
	}
	if file, ok := out.(*os.File); ok && f.watch && f.output == "table" {
		info, err := file.Stat()
		s.clear = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	var err error
	s.client, err = newNodesClient(c, f.address, f.caFile)
	return s, err
}

// The pause before the control plane is asked again that did not answer, and how long an
// answer may wait for a change.
const (
	statusPause = time.Second
	statusWait  = 25 * time.Second
)

// run prints once, or whenever something has changed until ctx ends.
func (r *roster) run(ctx context.Context) error {
	list, err := r.client.list(ctx, "", 0)
	if err != nil {
		return err
	}
	if err := r.show(list); err != nil || !r.watch {
		return errors.Join(err, verdictOf(list))
	}
	for ctx.Err() == nil {
		next, err := r.client.list(ctx, list.mark, statusWait)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			_, _ = fmt.Fprintln(r.out, "meshgate: the control plane does not say; asking again:", err)
			list.mark = "" // it may be another process when it does
			pause := time.NewTimer(statusPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
		case next.mark != list.mark:
			list = next
			if err := r.show(list); err != nil {
				return err
			}
		}
	}
	return verdictOf(list)
}

func (r *roster) show(list fleetStatus) error {
	if r.clear {
		_, _ = io.WriteString(r.out, "\x1b[H\x1b[2J")
	}
	return r.print(r.out, list)
}

// fleetStatus is the whole list.
type fleetStatus struct {
	nodes []nodes.Document
	mark  string
}

// summary counts the nodes of a list. Who refuses and who is behind is connected.
type summary struct {
	Connected int `json:"connected"`
	Away      int `json:"away"`
	Refused   int `json:"refused"`
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
		case len(n.Rejected) > 0:
			s.Rejecting++
		case !n.InStep:
			s.Behind++
		}
	}
	s.Connected = len(l.nodes) - s.Away - s.Refused
	return s
}

// verdictOf is the error that ends the program with the code of a list.
func verdictOf(l fleetStatus) error {
	if s := l.summary(); s.Away+s.Refused+s.Rejecting+s.Behind > 0 {
		return codedError{code: exitUneven}
	}
	return nil
}
