package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// player is an Envoy that plays traffic: what it has open at each time. It records when it
// got which order.
type player struct {
	start time.Time
	plays func(since time.Duration) traffic
	fails map[string]error
	heals time.Duration
	told  []string
}

func (p *player) Do(ctx context.Context, method, path string) (string, error) {
	since := time.Since(p.start)
	if err := p.fails[path]; err != nil && (p.heals == 0 || since < p.heals) {
		return "", err
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if method != http.MethodGet {
		p.told = append(p.told, fmt.Sprintf("%s %s", since, path))
		return "OK", nil
	}
	t := p.plays(since)
	return fmt.Sprintf("http.admin.downstream_rq_active: 1\nhttp.admin.downstream_rq_total: %[4]d\nhttp.gateway.downstream_rq_active: %[1]d\n"+
		"http.gateway.downstream_rq_total: %[3]d\nhttp.gateway.downstream_cx_active: %[2]d\nlistener.0.0.0.0_8000.downstream_cx_active: %[2]d\n"+
		"listener.0.0.0.0_8000.worker_0.downstream_cx_active: %[2]d\nlistener.admin.downstream_cx_active: 1\n", t.requests, t.connections, t.come, since), nil
}

// TestDrain checks which orders Envoy gets, when, and when it may end.
func TestDrain(t *testing.T) {
	idle := func(time.Duration) traffic { return traffic{connections: 2, come: 7} }
	for _, test := range []struct {
		name  string
		plays func(time.Duration) traffic
		delay time.Duration
		// passing is that of the drain.
		passing bool
		fails   map[string]error
		// heals is when the failures end; 0 is never.
		heals time.Duration
		told  []string
		ended time.Duration
		logs  []string
	}{
		{name: "nobody uses it", plays: func(time.Duration) traffic { return traffic{come: 7} },
			told: []string{"0s /healthcheck/fail", "0s /drain_listeners"}},
		{name: "nobody uses it, and load balancers shall notice", plays: func(time.Duration) traffic { return traffic{} }, delay: 5 * time.Second,
			told: []string{"5s /healthcheck/fail", "5s /drain_listeners"}, ended: 5 * time.Second},
		{name: "open connections may bring requests", plays: idle,
			told: []string{"0s /healthcheck/fail", "1s /drain_listeners"}, ended: time.Second},
		{name: "they have been quiet for the delay", plays: idle, delay: 5 * time.Second,
			told: []string{"5s /healthcheck/fail", "5s /drain_listeners"}, ended: 5 * time.Second},
		{name: "clients come for a while", delay: 5 * time.Second, plays: func(since time.Duration) traffic {
			return traffic{connections: 1, come: int(min(since, 8*time.Second) / time.Millisecond)}
		}, told: []string{"5s /healthcheck/fail", "9s /drain_listeners"}, ended: 9 * time.Second},
		{name: "clients never stop: they are refused after half of the time", delay: 5 * time.Second, plays: func(since time.Duration) traffic {
			return traffic{requests: 1, connections: 1, come: int(min(since, 20*time.Second))}.until(since, 21*time.Second)
		}, told: []string{"5s /healthcheck/fail", "20s /drain_listeners"}, ended: 22 * time.Second},
		{name: "a long request finishes", plays: func(since time.Duration) traffic {
			return traffic{requests: 1, connections: 1}.until(since, 25*time.Second)
		}, told: []string{"0s /healthcheck/fail", "15s /drain_listeners"}, ended: 26 * time.Second},
		{name: "a request takes too long", plays: func(time.Duration) traffic { return traffic{requests: 3, connections: 4} },
			told: []string{"0s /healthcheck/fail", "15s /drain_listeners"}, ended: 30 * time.Second,
			logs: []string{"WARN the time to drain is over with requests in flight requests=3 connections=4"}},
		{name: "connections that are passed on end", passing: true, plays: func(since time.Duration) traffic {
			if since < 4*time.Second {
				return traffic{connections: 2, come: 7}
			}
			return traffic{come: 7}
		}, told: []string{"0s /healthcheck/fail", "4.95s /drain_listeners"}, ended: 5 * time.Second},
		{name: "connections that are passed on stay", passing: true, plays: idle,
			told: []string{"0s /healthcheck/fail", "15s /drain_listeners"}, ended: 30 * time.Second,
			logs: []string{"WARN the time to drain is over with connections that are still passed on connections=2"}},
		{name: "Envoy refuses", plays: idle, fails: map[string]error{"/healthcheck/fail": errors.New("no")},
			told: []string{"1s /drain_listeners"}, ended: time.Second,
			logs: []string{"WARN envoy does not do as it is told while it drains, and is told again order=/healthcheck/fail error=no"}},
		{name: "Envoy says nothing", plays: idle, fails: map[string]error{trafficPath: errors.New("no")},
			told: []string{"0s /healthcheck/fail", "15s /drain_listeners"}, ended: 30 * time.Second,
			logs: []string{"WARN envoy does not say whether requests are in flight, and is asked again error=no",
				"WARN the time to drain is over, and envoy does not say what is in flight error=no"}},
		{name: "Envoy is too busy to answer for a while", fails: map[string]error{trafficPath: errors.New("no"), "/healthcheck/fail": errors.New("no")}, heals: 3 * time.Second,
			plays: func(since time.Duration) traffic {
				return traffic{requests: 1, connections: 1, come: 1}.until(since, 9*time.Second)
			},
			told: []string{"3s /healthcheck/fail", "9.95s /drain_listeners"}, ended: 10 * time.Second,
			logs: []string{"WARN envoy does not say whether requests are in flight, and is asked again error=no",
				"WARN envoy does not do as it is told while it drains, and is told again order=/healthcheck/fail error=no"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, r := &player{start: time.Now(), plays: test.plays, fails: test.fails, heals: test.heals}, newRecorder()
				d := draining{Drain: Drain{Delay: test.delay, Timeout: 30 * time.Second}, admin: p, log: slog.New(r), passing: test.passing}
				d.run(t.Context())
				if diff := cmp.Diff(test.told, p.told); diff != "" {
					t.Error(diff)
				}
				// The drain notices an event at its next question.
				if took := time.Since(p.start); took < test.ended-drainTick || took > test.ended+drainTick {
					t.Errorf("took %s, not %s", took, test.ended)
				}
				if diff := cmp.Diff(test.logs, r.all()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// until returns the traffic, with nothing in flight after a time.
func (t traffic) until(since, end time.Duration) traffic {
	if since >= end {
		t.requests = 0
	}
	return t
}

// TestDrainIsCutShort: a drain returns at once when Envoy has ended or must end, and logs
// nothing.
func TestDrainIsCutShort(t *testing.T) {
	for _, delay := range []time.Duration{time.Hour, 0} {
		synctest.Test(t, func(t *testing.T) {
			p, r := &player{start: time.Now(), plays: func(time.Duration) traffic { return traffic{requests: 1} }}, newRecorder()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			d := draining{Drain: Drain{Delay: delay, Timeout: time.Hour}, admin: p, log: slog.New(r)}
			if d.run(ctx); time.Since(p.start) != time.Second || len(r.all()) > 0 {
				t.Errorf("took %s", time.Since(p.start))
			}
			reportCut(p, slog.New(r))
			if diff := cmp.Diff([]string{"WARN a second signal ends envoy at once requests=1 connections=0"}, r.all()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDrainOfOneThatEnds: a drain does not wait for an Envoy that has ended. An agent that
// did not start that Envoy is not told of its end.
func TestDrainOfOneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		p := &player{start: time.Now(), fails: map[string]error{trafficPath: refused, "/healthcheck/fail": refused}}
		d := draining{Drain: Drain{Timeout: time.Hour}, admin: p, log: slog.New(newRecorder()), gone: func() bool { return time.Since(p.start) >= time.Minute }}
		if d.run(t.Context()); time.Since(p.start) != time.Minute {
			t.Errorf("took %s", time.Since(p.start))
		}
	})
}
