package prober

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/meshgate/meshgate/xds/probing"
)

// Options are what a prober needs of its agent.
type Options struct {
	// May returns an error for an address that this machine's agent must not connect to, and
	// [ErrUnable] if that cannot be found out.
	May func(netip.AddrPort) error
	// Lacks returns why the proxy does not have a listener, nil if it has it, and [ErrEarly] if
	// that is about to be known.
	Lacks func(listener string) error
	// Report tells the control plane what was found. It returns nil once that is stored.
	Report func(context.Context, []probing.Finding) error
	// Dial connects to an address, from another one if that is valid. If it is nil, it is TCP.
	Dial func(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error)
	Log  *slog.Logger
}

// ErrUnable says that nothing can be found out about a workload now, and ErrEarly that it soon can.
var (
	ErrUnable = errors.New("it cannot be checked now")
	ErrEarly  = errors.New("it cannot be checked yet")
)

// Prober runs the probes that it was told last.
type Prober struct {
	o Options
	// changed and wake have an entry while follow, or tell, has something to look at.
	changed, wake chan struct{}

	mu      sync.Mutex
	wanted  []probing.Probe
	running map[probing.Inbound]*watch
	// said is when the log last heard that something cannot be checked.
	said time.Time

	now func() time.Time // has a monotonic clock, which alone counts
}

// watch is one running probe. All but the first two is guarded by Prober.mu.
type watch struct {
	probe probing.Probe // Ready is not set
	stop  context.CancelFunc
	// held is what the control plane holds. found is what the probe has found, once it has.
	held  bool
	found finding
	// sent is what the control plane has last taken, at a time, unless it has held the same since.
	sent   finding
	sentAt time.Time
}

// finding is whether a workload is there.
type finding int

const (
	unknown finding = iota
	present
	absent
)

func findingOf(ready bool) finding {
	if ready {
		return present
	}
	return absent
}

// New returns a prober. Run does the work.
func New(o Options) *Prober {
	if o.Dial == nil {
		o.Dial = dial
	}
	return &Prober{o: o, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), running: map[probing.Inbound]*watch{}, now: time.Now}
}

// Set replaces what is probed. A probe that only differs in what the control plane holds goes on.
func (p *Prober) Set(probes []probing.Probe) {
	p.mu.Lock()
	p.wanted = probes
	p.mu.Unlock()
	signal(p.changed)
}

// signal leaves an entry in a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}

// Run probes and reports until ctx ends. Nothing is reported after it has returned. It is called
// once.
func (p *Prober) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Go(func() { p.tell(ctx) })
	for {
		p.follow(ctx, &all)
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
	}
}

// follow starts and stops probes until those that run are those that are wanted.
func (p *Prober) follow(ctx context.Context, all *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[probing.Inbound]probing.Probe{}
	for _, probe := range p.wanted[:min(len(p.wanted), probing.Max)] {
		wanted[probe.Inbound] = probe
	}
	for inbound, w := range p.running {
		if probe := wanted[inbound]; unheld(probe) != w.probe {
			w.stop()
			delete(p.running, inbound)
		}
	}
	for inbound, probe := range wanted {
		if w := p.running[inbound]; w != nil {
			w.held = probe.Ready
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		w := &watch{probe: unheld(probe), stop: stop, held: probe.Ready}
		p.running[inbound] = w
		all.Go(func() {
			defer stop()
			p.watch(ctx, w)
		})
	}
	signal(p.wake)
}

// unheld is a probe without what the control plane holds.
func unheld(p probing.Probe) probing.Probe {
	p.Ready = false
	return p
}

// find notes what a probe has found. cause says why the workload is not there.
func (p *Prober) find(w *watch, found finding, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[w.probe.Inbound] != w || w.found == found {
		return
	}
	w.found = found
	switch {
	case found == findingOf(w.held): // as after a restart
	case found == present:
		p.o.Log.Info("probed workload is there", "port", w.probe.Port, "workload", w.probe.At.String())
	default:
		p.o.Log.Warn("probed workload is not there", "port", w.probe.Port, "workload", w.probe.At.String(), "error", cause)
	}
	signal(p.wake)
}
