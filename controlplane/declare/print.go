package declare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
)

// The colours of actions on a terminal.
var colours = map[string]string{Creating: "\x1b[32m", Updating: "\x1b[33m", Deleting: "\x1b[31m"}

const plainly = "\x1b[0m"

// printer shows plans.
type printer struct {
	out    io.Writer
	colour bool
	// silent leaves out single operations.
	silent bool
}

// newPrinter returns a printer that uses colours on terminals only. Source: no-color.org.
func newPrinter(out io.Writer, silent bool) *printer {
	p := &printer{out: out, silent: silent}
	p.colour = cli.IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// op prints one operation.
func (p *printer) op(o *Op) {
	if p.silent {
		return
	}
	line := o.Action + " " + client.Plain(o.Label)
	if o.Action == Updating {
		line += "  {" + differences(o.Changes) + "\n }"
	}
	if p.colour {
		line = colours[o.Action] + line + plainly
	}
	_, _ = fmt.Fprintln(p.out, line)
}

// differences prints the members that differ, as they were and as they will be.
func differences(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		for _, side := range []struct {
			sign  string
			value any
		}{{"-", c.Old}, {"+", c.New}} {
			if side.value == nil {
				continue
			}
			raw, err := json.MarshalIndent(side.value, side.sign+"  ", "  ")
			if err != nil {
				raw = []byte(err.Error())
			}
			_, _ = fmt.Fprintf(&b, "\n%s  %q: %s", side.sign, c.Name, raw)
		}
	}
	return b.String()
}

// summary prints how many operations there are of each action.
func (p *printer) summary(ops []*Op) {
	n := count(ops)
	_, _ = fmt.Fprintf(p.out, "Summary:\n  Created: %d\n  Updated: %d\n  Deleted: %d\n", n[Creating], n[Updating], n[Deleting])
}

func count(ops []*Op) map[string]int {
	n := map[string]int{}
	for _, o := range ops {
		n[o.Action]++
	}
	return n
}

// report is the output for programs.
type report struct {
	Changes  map[string][]change `json:"changes"`
	Summary  summary             `json:"summary"`
	Warnings []string            `json:"warnings"`
	Errors   []string            `json:"errors"`
}

type summary struct {
	Creating int `json:"creating"`
	Updating int `json:"updating"`
	Deleting int `json:"deleting"`
	Total    int `json:"total"`
}

type change struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Body bodies `json:"body"`
	// DryRun is there if the change was only tried.
	DryRun *dryRun `json:"dry_run,omitempty"`
}

type bodies struct {
	New any `json:"new"`
	Old any `json:"old"`
}

// printJSON prints operations, warnings and an error for programs.
func printJSON(out io.Writer, ops []*Op, warnings []string, failed error) error {
	r := report{Changes: map[string][]change{}, Warnings: append([]string{}, warnings...), Errors: []string{}}
	for _, action := range []string{Creating, Updating, Deleting} {
		r.Changes[action] = []change{}
	}
	for _, o := range ops {
		c := change{Name: o.Name, Kind: o.Kind, DryRun: o.dryRun}
		if o.New != nil {
			c.Body.New = o.New
		}
		if o.Old != nil {
			c.Body.Old = o.Old
		}
		r.Changes[o.Action] = append(r.Changes[o.Action], c)
	}
	n := count(ops)
	r.Summary = summary{Creating: n[Creating], Updating: n[Updating], Deleting: n[Deleting], Total: len(ops)}
	if failures, ok := errors.AsType[Failures](failed); ok {
		r.Errors = append(r.Errors, failures...)
	} else if failed != nil {
		r.Errors = append(r.Errors, failed.Error())
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
