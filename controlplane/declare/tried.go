package declare

import (
	"errors"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// verdictChecked is that of a write which could not be tried, because what it refers to is not there yet,
// or because something is in its way that another write removes.
const verdictChecked = "checked"

// verdictUntried is that of a write of which nobody has said anything: it may yet be refused.
const verdictUntried = "untried"

// triedAs returns what is known of a write. Before are the other writes that may remove what is in its way.
// An API that has no time has not refused it: a program that reads so would give up a good file.
func triedAs(o *Op, answer *dryrun.Answer, err error, before []*Op) Tried {
	switch {
	case err == nil:
		return Tried{Op: o, Answer: answer}
	case conflicts(o, err, freeing(o, before)):
		return Tried{Op: o}
	case errors.Is(err, errEarly):
		return Tried{Op: o, Untried: err.Error()}
	case busy(err):
		return Tried{Op: o, Untried: problem(err, o.secrets), Busy: true}
	}
	return Tried{Op: o, Refused: problem(err, o.secrets)}
}

// freeing returns those of the other writes that may remove what is in the way of one. If a deletion
// could wait for itself, or for just any other write, one that is refused for good would be called checked.
func freeing(o *Op, before []*Op) (others []*Op) {
	for _, other := range before {
		if other != o && (o.Action != Deleting || other.frees(o)) {
			others = append(others, other)
		}
	}
	return others
}

// frees reports whether a write may end what forbids the deletion of something.
func (o *Op) frees(doomed *Op) bool {
	switch {
	case doomed.kind != nil:
		return o.kind != nil && o.refersTo(doomed)
	case doomed.Kind == mesh.Meshes.Document.Type: // everything else in it goes with it
		return o.Action == Deleting && o.Kind == mesh.Dataplanes.Document.Type && slices.Contains(o.Needs, doomed.ID)
	}
	return slices.ContainsFunc(doomed.Needs, func(id string) bool { return o.ID == id || slices.Contains(o.Needs, id) })
}

// refersTo reports whether an entity is there that keeps another one from being deleted.
func (o *Op) refersTo(other *Op) bool {
	for i := range o.kind.Refs {
		if ref := &o.kind.Refs[i]; ref.To == other.kind.Name && ref.OnDelete == model.Refuse && refID(o.is, ref.Name) == other.ID {
			return true
		}
	}
	for i := range o.kind.Holds {
		list, _ := o.is[o.kind.Holds[i].Name].([]any)
		if o.kind.Holds[i].To == other.kind.Name && slices.Contains(words(list), other.ID) {
			return true
		}
	}
	return slices.ContainsFunc(other.kind.Guards, func(g model.Guard) bool { return g.By == o.kind })
}

// warnBusy returns one warning about the writes for which the API had no time, if there are any.
func warnBusy(tried []Tried) []string {
	var missed []Tried
	for _, t := range tried {
		if t.Busy {
			missed = append(missed, t)
		}
	}
	if len(missed) == 0 {
		return nil
	}
	first := missed[0]
	return []string{fmt.Sprintf("%d of %d writes were not tried, because the control plane had no time; the first is %s %s: %s", len(missed), len(tried), first.Op.Action, first.Op.Label, first.Untried)}
}

// dryRun is what programs read about a write that was tried.
type dryRun struct {
	Verdict string `json:"verdict"`
	// Nodes is missing if nobody knows.
	Nodes *dryrun.Counts `json:"nodes,omitempty"`
	// Withheld says what the caller may not see, so that there are no problems to show.
	Withheld string           `json:"withheld,omitempty"`
	Problems []dryrun.Problem `json:"problems"`
}

func saidOf(t Tried) *dryRun {
	if t.Untried != "" {
		return &dryRun{Verdict: verdictUntried, Problems: []dryrun.Problem{}}
	}
	if t.Answer == nil {
		return &dryRun{Verdict: verdictChecked, Problems: []dryrun.Problem{}}
	}
	d := &dryRun{Verdict: t.Answer.Verdict, Nodes: &t.Answer.Nodes, Withheld: t.Answer.Withheld, Problems: []dryrun.Problem{}}
	for _, one := range t.Answer.Problems {
		one.Error = hide(one.Error, t.Op.secrets)
		d.Problems = append(d.Problems, one)
	}
	return d
}

// problems are the lines about what would not be as configured because of a write.
func (t Tried) problems() (lines []string) {
	if t.Answer == nil {
		return nil
	}
	for _, one := range t.Answer.Problems {
		if !one.Already {
			lines = append(lines, client.Plain(one.Resource)+": "+client.Plain(hide(one.Error, t.Op.secrets)))
		}
	}
	return lines
}

// warnings are the problems, each with the write.
func (t Tried) warnings() []string {
	lines := t.problems()
	for i := range lines {
		lines[i] = t.Op.Action + " " + t.Op.Label + ": " + lines[i]
	}
	return lines
}

// tried prints what the API says about an operation.
func (p *printer) tried(t Tried) {
	p.op(t.Op)
	if p.silent {
		return
	}
	switch {
	case t.Refused != "":
		_, _ = fmt.Fprintln(p.out, "   refused:", client.Plain(t.Refused))
	case t.Untried != "":
		_, _ = fmt.Fprintln(p.out, "   untried:", client.Plain(t.Untried))
	case t.Answer == nil:
		_, _ = fmt.Fprintln(p.out, "   checked; it can be tried when what it refers to is there, or what is in its way is gone")
	default:
		n := t.Answer.Nodes
		_, _ = fmt.Fprintf(p.out, "   %s; %d of %d nodes would get something else\n", t.Answer.Verdict, n.Changed, n.Compared+n.Omitted)
		for _, line := range t.problems() {
			_, _ = fmt.Fprintln(p.out, "   "+line)
		}
	}
}
