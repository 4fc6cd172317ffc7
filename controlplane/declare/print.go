package declare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
	if file, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		p.colour = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
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

// tried prints what the API says about an operation.
func (p *printer) tried(t Tried) {
	p.op(t.Op)
	if p.silent {
		return
	}
	if t.Answer == nil {
		_, _ = fmt.Fprintln(p.out, "   checked; it can be tried when what it refers to is there, or what is in its way is gone")
		return
	}
	n := t.Answer.Nodes
	_, _ = fmt.Fprintf(p.out, "   %s; %d of %d nodes would get something else\n", t.Answer.Verdict, n.Changed, n.Compared+n.Omitted)
	for _, one := range t.Answer.Problems {
		if !one.Already {
			_, _ = fmt.Fprintf(p.out, "   %s: %s\n", client.Plain(one.Resource), client.Plain(one.Error))
		}
	}
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
		c := change{Name: o.Name, Kind: o.Kind}
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
