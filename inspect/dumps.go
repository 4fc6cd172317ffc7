package inspect

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/resource"
)

// Where a dump comes from, as callers ask for it.
const (
	// FromProxy is the proxy's own words, where it can be asked.
	FromProxy = "proxy"
	// FromControlPlane is the control plane's record, also of a proxy that can be asked.
	FromControlPlane = "control-plane"
)

// Limits of dumps. A dump has up to 64 MiB and is in memory until its caller has it.
const (
	// Patience bounds a dump from its request until it can be shown. It stays below the
	// write timeout of the servers.
	Patience = 25 * time.Second
	// AtOnce is how many dumps are in memory, of one node only one.
	AtOnce = 4
)

// dumpPath is what Envoy is asked for.
const dumpPath = "/config_dump?include_eds"

// DumpOptions are where [Dumps] look; all are required.
type DumpOptions struct {
	// Ask asks the Envoy of a node for a path; its errors are Unavailable faults, of a
	// node without a link such that Unlinked says so.
	Ask func(ctx context.Context, node, path string) ([]byte, error)
	// Unlinked tells that an error of Ask says that there is nobody to ask.
	Unlinked func(error) bool
	// Last is what a node was sent, and what of that it has answered.
	Last func(node string) (set, answered *resource.Set)
	// Node is what is known of a node; an error where it is not known.
	Node func(name string) (nodes.Node, error)
}

// Dumps show the configuration that nodes have, sidecars and gateways alike.
type Dumps struct {
	o    DumpOptions
	room *semaphore.Weighted

	mu   sync.Mutex
	busy map[string]*dumpers
}

// dumpers are those who want a dump of one node.
type dumpers struct {
	turn *semaphore.Weighted
	want int
}

// NewDumps returns dumps.
func NewDumps(o DumpOptions) *Dumps {
	return &Dumps{o: o, room: semaphore.NewWeighted(AtOnce), busy: map[string]*dumpers{}}
}

// XDS calls show with the dump of a node, a JSON object with the key configs. From the
// proxy it is what its Envoy answers, or the control plane's record, marked by the key
// source, if the proxy does not answer or its agent is away. The dump is in nobody's
// hands once show has returned. Faults: Invalid for a from that is none, Unavailable if
// too many want a dump at once.
func (d *Dumps) XDS(ctx context.Context, node, from string, show func(dump []byte)) error {
	if from != "" && from != FromProxy && from != FromControlPlane {
		return fault.Violated([]fault.Violation{{Path: "source", Message: "must be " + FromProxy + " or " + FromControlPlane}})
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	leave, err := d.enter(ctx, node)
	if err != nil {
		return err
	}
	defer leave()
	dump, err := d.dump(ctx, node, from)
	if err == nil {
		show(dump)
	}
	return err
}

// enter waits until a dump of a node may be made. Whoever waits for a node that is slow
// takes nobody else's room.
func (d *Dumps) enter(ctx context.Context, node string) (leave func(), err error) {
	d.mu.Lock()
	t := d.busy[node]
	if t == nil {
		t = &dumpers{turn: semaphore.NewWeighted(1)}
		d.busy[node] = t
	}
	t.want++
	d.mu.Unlock()
	gone := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.want--; t.want == 0 {
			delete(d.busy, node)
		}
	}
	if err := t.turn.Acquire(ctx, 1); err != nil {
		gone()
		return nil, fault.Wrap(fault.Unavailable, err, "others wait for a dump of node %q: ask again", node)
	}
	if err := d.room.Acquire(ctx, 1); err != nil {
		t.turn.Release(1)
		gone()
		return nil, fault.Wrap(fault.Unavailable, err, "too many dumps are being made: ask again")
	}
	return func() {
		d.room.Release(1)
		t.turn.Release(1)
		gone()
	}, nil
}

func (d *Dumps) dump(ctx context.Context, node, from string) ([]byte, error) {
	about, err := d.o.Node(node)
	connected := err == nil && about.State == insight.Connected
	if from == FromControlPlane {
		return d.record(node, SourceAsked, connected, about.Rejected)
	}
	text, err := d.o.Ask(ctx, node, dumpPath)
	if err == nil {
		if text, err = Conceal(text); err == nil {
			return text, nil
		}
		err = fault.Wrap(fault.Unavailable, err, "%s", err)
	}
	switch {
	case d.o.Unlinked(err):
		return d.record(node, SourceUnasked, connected, about.Rejected)
	case fault.Is(err, fault.Unavailable), errors.Is(err, context.DeadlineExceeded):
		return d.record(node, sourceSilent+err.Error(), true, about.Rejected)
	}
	return nil, err
}

// record shows what is known of a node. source is what it says of one that is connected.
func (d *Dumps) record(node, source string, connected bool, refused []insight.Rejected) ([]byte, error) {
	k := Known{Refused: refused}
	k.Set, k.Answered = d.o.Last(node)
	switch {
	case connected:
	case k.Set == nil:
		source = SourceNothing
	default:
		source = SourceAway
	}
	text, err := Record(source, k)
	if err != nil {
		return nil, err
	}
	return Conceal(text)
}
