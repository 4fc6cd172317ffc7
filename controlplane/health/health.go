// Package health keeps what is the matter with a process: a short list of named
// conditions, each of which is in order, degraded or failed.
//
// Whoever meets a trouble sets the condition; whoever meets that it is over sets it
// again. A change is logged in one line, however often the trouble is met. What is
// the matter stands in the answer of /ready and in a metric for as long as it lasts.
package health

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// State says how bad a condition is.
type State string

// The states.
const (
	// OK is in order.
	OK State = "ok"
	// Degraded is a trouble with which the process goes on with its work.
	Degraded State = "degraded"
	// Failed is a trouble with which the process cannot do its work: /ready is 503.
	Failed State = "failed"
)

// states are all of them, for the metric.
var states = [...]State{OK, Degraded, Failed}

// Finding is what is the matter.
type Finding struct {
	State State
	// Reason tells one trouble from another, in snake case; another one is logged.
	Reason string
	// Text says what is the matter, what still works and what to do. It is shown to
	// everybody who reaches /ready, so it holds no secret. It may change while the
	// trouble is the same, and is then not logged again.
	Text string
}

// Condition is one thing that can be in order or not, as JSON shows it.
type Condition struct {
	Name   string `json:"name"`
	State  State  `json:"state" jsonschema:"enum=ok,enum=degraded,enum=failed"`
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
	// Since is when state or reason changed.
	Since time.Time `json:"since"`
}

// Kind describes a condition.
type Kind struct {
	Name string
	// Bad and Good are the messages of the log, for a trouble and for its end.
	Bad, Good string
}

// probeEvery is how often those who look have a trouble looked into, at most: a probe
// may write to a disk, and everybody may look.
const probeEvery = time.Second

// Board holds the conditions of a process.
type Board struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	items []*item
	// moves counts changes of states and reasons; moved is closed at the next one.
	moves uint64
	moved chan struct{}
}

type item struct {
	Condition
	kind  Kind
	probe func(context.Context)
	// always says that it is made in order, too; every is the least time between two.
	always bool
	every  time.Duration
	probed time.Time
}

// New returns a board on which everything is in order.
func New(log *slog.Logger, now func() time.Time, kinds ...Kind) *Board {
	b := &Board{log: log, now: now, moved: make(chan struct{})}
	for _, k := range kinds {
		b.items = append(b.items, &item{kind: k, Condition: Condition{Name: k.Name, State: OK, Since: now().UTC()}})
	}
	return b
}

// Probe has a condition that is not in order looked into by fn whenever somebody looks
// at the board: for troubles of which nobody hears that they are over. fn calls Set.
func (b *Board) Probe(name string, fn func(context.Context)) {
	b.look(name, probeEvery, false, fn)
}

// Watch has a condition looked into by fn whenever somebody looks at the board, in order or
// not, though not more often than that: for troubles of which nobody hears that they have
// begun. fn calls Set.
func (b *Board) Watch(name string, every time.Duration, fn func(context.Context)) {
	b.look(name, every, true, fn)
}

func (b *Board) look(name string, every time.Duration, always bool, fn func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.find(name); i != nil {
		i.probe, i.every, i.always = fn, every, always
	}
}

func (b *Board) find(name string) *item {
	for _, i := range b.items {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// Set says how it is with a condition. It logs one line if that is a change.
func (b *Board) Set(name string, f Finding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(name)
	if i == nil {
		b.log.Error("a condition that does not exist was set", "condition", name, "reason", f.Reason)
		return
	}
	if f.State == OK {
		f = Finding{State: OK}
	}
	before := i.Condition
	i.Text = f.Text
	if before.State == f.State && before.Reason == f.Reason {
		return
	}
	i.State, i.Reason, i.Since = f.State, f.Reason, b.now().UTC()
	b.moves++
	close(b.moved)
	b.moved = make(chan struct{})
	switch f.State {
	case OK:
		b.log.Info(i.kind.Good, "condition", name, "state", f.State, "was", before.Reason, "lasted", i.Since.Sub(before.Since).Round(time.Millisecond).String())
	case Degraded:
		b.log.Warn(i.kind.Bad, "condition", name, "state", f.State, "reason", f.Reason, "text", f.Text)
	case Failed:
		b.log.Error(i.kind.Bad, "condition", name, "state", f.State, "reason", f.Reason, "text", f.Text)
	}
}

// Good says that a condition is in order.
func (b *Board) Good(name string) { b.Set(name, Finding{State: OK}) }

// Get returns one condition as it was set last.
func (b *Board) Get(name string) Condition {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.find(name); i != nil {
		return i.Condition
	}
	return Condition{}
}

// Moves counts the changes of states and reasons so far. The channel is closed at the
// next one.
func (b *Board) Moves() (uint64, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves, b.moved
}

// Conditions returns all of them, in the order of New. What is not in order is looked
// into before.
func (b *Board) Conditions(ctx context.Context) []Condition {
	if b == nil {
		return []Condition{}
	}
	for _, probe := range b.due() {
		probe(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Condition, 0, len(b.items))
	for _, i := range b.items {
		out = append(out, i.Condition)
	}
	return out
}

// due returns the probes that are to be made now, and takes them for made.
func (b *Board) due() (probes []func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, i := range b.items {
		if i.probe != nil && (i.always || i.State != OK) && (i.probed.IsZero() || now.Sub(i.probed) >= i.every) {
			i.probed = now
			probes = append(probes, i.probe)
		}
	}
	return probes
}

// Failure returns the text of the first condition that has failed, or "".
func Failure(conditions []Condition) string {
	for _, c := range conditions {
		if c.State == Failed {
			return c.Text
		}
	}
	return ""
}

// Ready is the message of a program that lacks nothing.
const Ready = "ready"

// Answer is the body of /ready.
type Answer struct {
	Message    string      `json:"message"`
	Conditions []Condition `json:"conditions"`
}

// Report is the body of GET /conditions of an API: what /ready says, for those who do not
// reach the diagnostics port.
type Report struct {
	Answer
	// Mark is what since takes; it changes with the state or the reason of a condition.
	Mark string `json:"mark"`
}
