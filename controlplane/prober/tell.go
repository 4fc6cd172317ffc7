package prober

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/probing"
)

const (
	// quiet is the least time between two reports. Each may be a change for every caller, so a
	// workload that comes and goes all the time is told less often.
	quiet = time.Second
	// gather is how long a finding waits for others of the same moment, as of one process that
	// serves several ports.
	gather = 10 * time.Millisecond
	// resend is how long the control plane may take to say that it holds what it was told. It
	// says so with the configuration, which the proxy has to confirm first.
	resend = 15 * time.Second
	// Bounds of the pause after a report that was not taken.
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// tell reports what differs from what the control plane holds, until ctx ends.
func (p *Prober) tell(ctx context.Context) {
	pause := firstPause
	for {
		due, next := p.due(p.now())
		if len(due) == 0 {
			if !p.sleep(ctx, next) {
				return
			}
			continue
		}
		err := p.o.Report(ctx, due)
		rest := quiet
		if err == nil {
			p.taken(due, p.now())
			pause = firstPause
		} else {
			if pause == firstPause && ctx.Err() == nil {
				p.o.Log.Warn("the control plane could not be told which workloads are there, and will be", "error", err)
			}
			rest, pause = pause, min(2*pause, lastPause)
		}
		if alarm.Rest(ctx, rest) != nil {
			return
		}
	}
}

// sleep returns true when there may be something to report: after a time, if that is not 0, or when
// something was found. Like all of this it counts the time that the host is awake, so no change of
// the clock can make it wait longer, or not at all.
func (p *Prober) sleep(ctx context.Context, next time.Duration) bool {
	var again <-chan time.Time
	if next > 0 {
		timer := time.NewTimer(next)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-again:
		return true
	case <-p.wake:
		return alarm.Rest(ctx, gather) == nil
	}
}

// due returns what to report now, and after which time there may be more without anything happening;
// 0 is never.
func (p *Prober) due(now time.Time) (out []probing.Finding, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for inbound, w := range p.running {
		switch left := resend - now.Sub(w.sentAt); {
		case w.found == unknown:
		case w.found == findingOf(w.held):
			w.sent = unknown
		case w.found == w.sent && left > 0:
			if next == 0 || left < next {
				next = left
			}
		default:
			out = append(out, probing.Finding{Inbound: inbound, Ready: w.found == present})
		}
	}
	slices.SortFunc(out, func(a, b probing.Finding) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
	})
	return out, next
}

// taken notes that the control plane has taken a report.
func (p *Prober) taken(report []probing.Finding, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range report {
		if w := p.running[f.Inbound]; w != nil {
			w.sent, w.sentAt = findingOf(f.Ready), now
		}
	}
}
