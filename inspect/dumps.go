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

// These are the sources of a dump that callers may ask for.
const (
	// FromProxy is the answer of the proxy itself, if it can be asked.
	FromProxy = "proxy"
	// FromControlPlane is the record of the control plane, even if the proxy can be asked.
	FromControlPlane = "control-plane"
)

// These are limits of dumps. A dump has up to 64 MiB and stays in memory until its caller has
// it.
const (
	// Patience is the maximum time from the request for a dump until it can be shown. It is
	// below the write timeout of the servers.
	Patience = 25 * time.Second
	// AtOnce is how many dumps may be in memory, at most one per node.
	AtOnce = 4
)

// dumpPath is the path that Envoy is asked for.
const dumpPath = "/config_dump?include_eds"

// DumpOptions are the sources of [Dumps]; all are required.
type DumpOptions struct {
	// Ask asks the Envoy of a node for a path. Its errors are Unavailable faults; Unlinked
	// recognises the one for a node without a link.
	Ask func(ctx context.Context, node, path string) ([]byte, error)
	// Unlinked reports whether an error of Ask says that there is nobody to ask.
	Unlinked func(error) bool
	// Last returns what a node was sent, and what it has answered of that.
	Last func(node string) (set, answered *resource.Set)
	// Desired returns what a node should have, connected or not.
	Desired func(ctx context.Context, node string) (*resource.Set, error)
	// Node returns what is known of a node, or an error for an unknown one.
	Node func(name string) (nodes.Node, error)
}

// Dumps shows the configuration that nodes have, for sidecars and gateways alike.
type Dumps struct {
	o    DumpOptions
	room *semaphore.Weighted

	mu   sync.Mutex
	busy map[string]*dumpers
}

// dumpers are the callers that want a dump of one node.
type dumpers struct {
	turn *semaphore.Weighted
	want int
}

// NewDumps returns dumps with these sources.
func NewDumps(o DumpOptions) *Dumps {
	return &Dumps{o: o, room: semaphore.NewWeighted(AtOnce), busy: map[string]*dumpers{}}
}

// XDS calls show with the dump of a node, a JSON object with the key configs. The dump is the
// answer of the node's Envoy. If the proxy does not answer, or its agent is away, it is the
// record of the control plane, marked by the key source. The dump must not be used after show
// has returned. Faults: Invalid for an unknown from, Unavailable if too many want a dump at
// once.
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

// Ask calls show with what the Envoy of a node has at a path of its administration interface.
// Nobody else knows that, so a proxy that does not answer is an Unavailable fault. The page must
// not be used after show has returned.
func (d *Dumps) Ask(ctx context.Context, node, path string, show func(page []byte)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	leave, err := d.enter(ctx, node)
	if err != nil {
		return err
	}
	defer leave()
	text, err := d.o.Ask(ctx, node, path)
	switch {
	case err == nil:
		show(text)
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, err, "the proxy does not answer")
	}
	return err
}

// enter waits until a dump of a node may be made. A caller that waits for a slow node takes no
// room from others.
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

// record returns what is known of a node. source describes the record of a connected node.
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
