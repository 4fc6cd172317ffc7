package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
)

// Drain says how Envoy is ended. SIGTERM alone would cut off requests in flight.
type Drain struct {
	// Delay is how long Envoy first continues unchanged, so that load balancers can see at
	// /ready that it leaves.
	Delay time.Duration
	// Timeout bounds the time after the delay, in which clients are sent away and requests
	// may finish.
	Timeout time.Duration
}

const (
	// drainTick is how often a draining Envoy is asked what is left. Envoy has no event for
	// that.
	drainTick = 50 * time.Millisecond
	// quietTime is how long no client may have come before a drain assumes that no client
	// will come.
	quietTime = time.Second
	// reportTime bounds the request that finds out what a second signal cuts off.
	reportTime = 500 * time.Millisecond
)

// asker is what a drain needs from [Admin].
type asker interface {
	Do(ctx context.Context, method, path string) (string, error)
}

// traffic is what clients have open, and the total of requests and connections so far.
type traffic struct{ requests, connections, come int }

// trafficPath requests the numbers for [readTraffic].
const trafficPath = `/stats?filter=^(http|listener)\..*downstream_(rq|cx)_(active|total)$`

// readTraffic reads what clients have open, without the traffic of the admin interface
// itself.
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

// draining is the drain of one Envoy.
type draining struct {
	Drain
	admin asker
	log   *slog.Logger
	// passing says that Envoy passes connections on, and knows of no requests in them. An open
	// connection then counts as a request.
	passing bool
	// gone, if set, reports that Envoy has ended. It is needed if ctx does not end with
	// Envoy.
	gone func() bool
	// last is the last traffic seen. moved is when the agent last saw that a client had
	// come, or could not find out.
	last  traffic
	moved time.Time
	// blind is why Envoy does not report what is in flight, nil while it does.
	blind error
}

// run drains Envoy, and returns when nothing is left or ctx ends.
//
//  1. Nothing changes for the delay.
//  2. Clients are sent away with their next answer, by "connection: close" or
//     GOAWAY. New connections are still accepted. This lasts until no client comes any
//     more, at most for half of the time.
//  3. New connections are refused, so that clients which never stop cannot keep a
//     request in flight for ever. A refused client has lost nothing and can go
//     elsewhere. Requests in flight finish.
//
// A request to Envoy that fails is repeated, and the other steps are carried out all the
// same. An Envoy that is too busy to answer has requests in flight, which would otherwise
// be cut off.
func (d *draining) run(ctx context.Context) {
	d.moved = time.Now()
	if d.look(ctx); d.blind == nil && d.last.connections == 0 {
		d.moved = time.Time{} // no client was there before
	}
	if alarm.Rest(ctx, d.Delay) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	half, stop := context.WithTimeout(ctx, d.Timeout/2)
	defer stop()
	d.step(half, "/healthcheck/fail")
	d.step(ctx, "/drain_listeners")
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	switch {
	case d.blind != nil:
		d.log.Warn("the time to drain is over, and envoy does not say what is in flight", "error", d.blind)
	case d.passing && d.last.connections > 0:
		d.log.Warn("the time to drain is over with connections that are still passed on", "connections", d.last.connections)
	case d.last.requests > 0:
		d.log.Warn("the time to drain is over with requests in flight", "requests", d.last.requests, "connections", d.last.connections)
	}
}

// step gives Envoy an order. It returns when no request is in flight and no client has come
// for quietTime, or when ctx ends.
func (d *draining) step(ctx context.Context, order string) {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for told, warned := false, false; ; {
		if !told {
			_, err := d.admin.Do(ctx, http.MethodPost, order)
			if told = err == nil; !told && !warned && ctx.Err() == nil {
				d.log.Warn("envoy does not do as it is told while it drains, and is told again", "order", order, "error", err)
				warned = true
			}
		}
		if d.look(ctx); time.Since(d.moved) >= quietTime || d.blind != nil && d.gone != nil && d.gone() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks Envoy what is in flight.
func (d *draining) look(ctx context.Context) {
	now, err := readTraffic(ctx, d.admin)
	if ctx.Err() != nil {
		return
	}
	if err != nil && d.blind == nil {
		d.log.Warn("envoy does not say whether requests are in flight, and is asked again", "error", err)
	}
	if d.blind = err; err != nil {
		d.moved = time.Now() // a client may have come
		return
	}
	if now.come != d.last.come || now.requests > 0 || d.passing && now.connections > 0 {
		d.moved = time.Now()
	}
	d.last = now
}

// reportCut logs what an immediate end cuts off.
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
