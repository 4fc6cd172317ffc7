// Package health keeps the condition of a process: a short list of named conditions, each of
// which is in order, degraded or failed.
//
// Code that meets a trouble sets the condition, and code that sees that it is over sets it
// again. A change is logged in one line, no matter how often the trouble is met. While it
// lasts, it is shown in the answer of /ready and in a metric.
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
	// OK means that the condition is in order.
	OK State = "ok"
	// Degraded means a trouble despite which the process can do its work.
	Degraded State = "degraded"
	// Failed means a trouble with which the process cannot do its work: /ready answers 503.
	Failed State = "failed"
)

// states lists all states, for the metric.
var states = [...]State{OK, Degraded, Failed}

// Finding describes the state of a condition.
type Finding struct {
	State State
	// Reason distinguishes troubles, in snake case. A new reason is logged.
	Reason string
	// Text says what is wrong, what still works and what to do. Everybody who reaches /ready
	// can read it, so it must contain no secret. It may change during the same trouble,
	// which is not logged again.
	Text string
}

// Condition is the current state of one thing, as JSON shows it.
type Condition struct {
	Name   string `json:"name"`
	State  State  `json:"state" jsonschema:"enum=ok,enum=degraded,enum=failed"`
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text,omitempty"`
	// Since is when state or reason last changed.
	Since time.Time `json:"since"`
}

// Kind describes a condition.
type Kind struct {
	Name string
	// Bad and Good are the log messages for a trouble and for its end.
	Bad, Good string
}

// probeEvery is the least time between two probes of a trouble, because a probe may write to
// a disk, and everybody may look at the board.
const probeEvery = time.Second

// Board holds the conditions of a process.
type Board struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	items []*item
	// moves counts changes of states and reasons. moved is closed at the next one.
	moves uint64
	moved chan struct{}
}

type item struct {
	Condition
	kind  Kind
	probe func(context.Context)
	// always says that the condition is probed even while it is in order. every is the least
	// time between two probes.
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

// Probe makes fn check a condition that is not in order whenever somebody looks at the
// board. It is for troubles whose end nobody would notice. fn calls Set.
func (b *Board) Probe(name string, fn func(context.Context)) {
	b.look(name, probeEvery, false, fn)
}

// Watch makes fn check a condition whenever somebody looks at the board, even while it is in
// order, but at most once in every. It is for troubles whose beginning nobody would notice.
// fn calls Set.
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

// Set sets the state of a condition. It logs one line if this is a change.
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

// Good records that a condition is in order.
func (b *Board) Good(name string) { b.Set(name, Finding{State: OK}) }

// Get returns one condition as it was last set.
func (b *Board) Get(name string) Condition {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.find(name); i != nil {
		return i.Condition
	}
	return Condition{}
}

// Moves returns the number of changes of states and reasons so far. The channel is closed at
// the next one.
func (b *Board) Moves() (uint64, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves, b.moved
}

// Conditions returns all conditions, in the order of New. It first runs the probes that are
// due. A nil board has none.
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

// due returns the probes to run now, and counts them as run.
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

// Failure returns the text of the first failed condition, or "".
func Failure(conditions []Condition) string {
	for _, c := range conditions {
		if c.State == Failed {
			return c.Text
		}
	}
	return ""
}

// Ready is the message of a program without failed conditions.
const Ready = "ready"

// Answer is the body of /ready.
type Answer struct {
	Message    string      `json:"message"`
	Conditions []Condition `json:"conditions"`
}

// Report is the body of GET /conditions of an API. It has the content of /ready, for clients
// that cannot reach the diagnostics port.
type Report struct {
	Answer
	// Mark is a value for the parameter since. It changes with the state or the reason of a
	// condition.
	Mark string `json:"mark"`
}
