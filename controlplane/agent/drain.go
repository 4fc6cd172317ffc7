package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Drain says how Envoy leaves. SIGTERM alone would cut what is in flight.
type Drain struct {
	// Delay is how long Envoy goes on as if nothing were, so that load balancers
	// can see at /ready that it leaves.
	Delay time.Duration
	// Timeout bounds what follows: how long clients are sent away, and requests may
	// finish.
	Timeout time.Duration
}

const (
	// drainTick is how often a draining Envoy is asked what is left. It has no event
	// for that.
	drainTick = 50 * time.Millisecond
	// quietTime is for how long nobody may have come until nobody is believed to come.
	quietTime = time.Second
	// reportTime bounds the question what a second signal cuts off.
	reportTime = 500 * time.Millisecond
)

// asker is what a drain needs of [Admin].
type asker interface {
	Do(ctx context.Context, method, path string) (string, error)
}

// traffic is what clients have open, and what has come of them so far.
type traffic struct{ requests, connections, come int }

// trafficPath asks for the numbers of [readTraffic].
const trafficPath = `/stats?filter=^(http|listener)\..*downstream_(rq|cx)_(active|total)$`

// readTraffic reads what clients have open; the admin interface's own is not among
// it.
func readTraffic(ctx context.Context, admin asker) (traffic, error) {
	var t traffic
	text, err := admin.Do(ctx, http.MethodGet, trafficPath)
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		kind, rest, _ := strings.Cut(name, ".")
		if err != nil || strings.HasPrefix(rest, "admin.") || strings.Contains(rest, ".worker_") {
			continue
		}
		switch {
		case strings.HasSuffix(rest, ".downstream_rq_active"):
			t.requests += n
		case strings.HasSuffix(rest, "_total"):
			t.come += n
		case kind == "listener":
			t.connections += n
		}
	}
	return t, nil
}

// draining is one Envoy that leaves.
type draining struct {
	Drain
	admin asker
	log   *slog.Logger
	// last is what was seen last, moved when it was seen that somebody had come.
	last  traffic
	moved time.Time
}

// run lets Envoy leave, and returns when nothing is left or ctx ends.
//
//  1. Nothing changes for the delay.
//  2. Clients are sent away with their next answer, by "connection: close" or
//     GOAWAY, while new connections are still accepted: until nobody comes any more,
//     and for half of the time at most.
//  3. New connections are refused, so that clients which never stop cannot keep a
//     request in flight for ever: whoever is refused has lost nothing and can go
//     elsewhere. What is in flight finishes.
func (d *draining) run(ctx context.Context) {
	first, err := readTraffic(ctx, d.admin)
	if err == nil {
		d.last = first
	}
	if err != nil || first.connections > 0 {
		d.moved = time.Now() // else it has been quiet
	}
	if rest(ctx, d.Delay) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	half, stop := context.WithTimeout(ctx, d.Timeout/2)
	defer stop()
	if !d.ask(ctx, "/healthcheck/fail") || !d.until(half) || !d.ask(ctx, "/drain_listeners") {
		return
	}
	d.until(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && d.last.requests > 0 {
		d.log.Warn("the time to drain is over with requests in flight", "requests", d.last.requests, "connections", d.last.connections)
	}
}

func (d *draining) ask(ctx context.Context, path string) bool {
	_, err := d.admin.Do(ctx, http.MethodPost, path)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("envoy cannot be drained", "error", err)
	}
	return err == nil
}

// until returns when no request is in flight and nobody comes any more, or ctx ends.
// It returns false where Envoy cannot be asked.
func (d *draining) until(ctx context.Context) bool {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for {
		now, err := readTraffic(ctx, d.admin)
		switch {
		case ctx.Err() != nil:
			return true
		case err != nil:
			d.log.Warn("envoy does not say whether requests are in flight", "error", err)
			return false
		}
		if now.come != d.last.come || now.requests > 0 {
			d.moved = time.Now()
		}
		if d.last = now; time.Since(d.moved) >= quietTime {
			return true
		}
		select {
		case <-ctx.Done():
			return true
		case <-tick.C:
		}
	}
}

// reportCut says what an end at once cuts off.
func reportCut(admin asker, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	left, err := readTraffic(ctx, admin)
	if err != nil {
		log.Warn("a second signal ends envoy at once; it does not say what that cuts off", "error", err)
		return
	}
	log.Warn("a second signal ends envoy at once", "requests", left.requests, "connections", left.connections)
}
