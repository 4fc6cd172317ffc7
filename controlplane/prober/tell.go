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
	again := alarm.New(nil)
	defer again.Set(time.Time{})
	pause := firstPause
	for {
		due, next := p.due(time.Now())
		if len(due) == 0 {
			again.Set(next)
			select {
			case <-ctx.Done():
				return
			case <-again.C():
			case <-p.wake:
				if alarm.Rest(ctx, gather) != nil {
					return
				}
			}
			continue
		}
		err := p.o.Report(ctx, due)
		rest := quiet
		if err == nil {
			p.taken(due, time.Now())
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

// due returns what to report now, and when there may be more without anything happening.
func (p *Prober) due(now time.Time) (out []probing.Finding, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for inbound, w := range p.running {
		switch later := w.sentAt.Add(resend); {
		case w.found == unknown:
		case w.found == findingOf(w.held):
			w.sent = unknown
		case w.found == w.sent && now.Before(later):
			next = alarm.Sooner(next, later)
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
