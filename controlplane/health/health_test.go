package health

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func testBoard() (*Board, *bytes.Buffer) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return New(log, time.Now, Kind{"disk", "the disk is bad", "the disk is good again"}, Kind{"clock", "the clock is off", "the clock is right"}), &out
}

// TestOneLinePerChange: a trouble that is met a hundred times is logged once. Another
// trouble and the end are logged once more each. A new text alone is not logged.
func TestOneLinePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := testBoard()
		for i := range 100 {
			b.Set("disk", Finding{Degraded, "full", "free some " + strings.Repeat("x", i%3)})
		}
		time.Sleep(1500 * time.Millisecond)
		b.Set("disk", Finding{Failed, "away", "where is it"})
		time.Sleep(time.Second)
		b.Good("disk")
		b.Good("disk")
		b.Good("clock")
		want := `level=WARN msg="the disk is bad" condition=disk state=degraded reason=full text="free some "
level=ERROR msg="the disk is bad" condition=disk state=failed reason=away text="where is it"
level=INFO msg="the disk is good again" condition=disk state=ok was=away lasted=1s
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestConditions: the conditions are shown by /ready, and only failed ones stop the process.
func TestConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBoard()
		start := time.Now().UTC()
		b.Set("clock", Finding{Degraded, "ahead", "7 s"})
		if got := Failure(b.Conditions(t.Context())); got != "" {
			t.Errorf("degraded is failed: %q", got)
		}
		time.Sleep(time.Minute)
		b.Set("clock", Finding{Degraded, "ahead", "9 s"})
		b.Set("disk", Finding{Failed, "away", "no disk"})
		b.Set("nobody knows this", Finding{Failed, "x", "y"})
		want := []Condition{{"disk", Failed, "away", "no disk", start.Add(time.Minute)}, {"clock", Degraded, "ahead", "9 s", start}}
		got := b.Conditions(t.Context())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if Failure(got) != "no disk" {
			t.Errorf("%q", Failure(got))
		}
	})
}

// TestProbe: a condition that is not in order is checked by whoever looks, at most once a
// second.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBoard()
		asked := 0
		b.Probe("disk", func(context.Context) {
			if asked++; asked == 3 {
				b.Good("disk")
			}
		})
		look := func(want int, state State) {
			t.Helper()
			for range 5 {
				if got := b.Conditions(t.Context())[0]; asked != want || got.State != state {
					t.Fatalf("asked %d times: %+v", asked, got)
				}
			}
		}
		look(0, OK)
		b.Set("disk", Finding{Degraded, "full", ""})
		look(1, Degraded)
		time.Sleep(time.Second)
		look(2, Degraded)
		time.Sleep(time.Second)
		look(3, OK)
		time.Sleep(time.Minute)
		look(3, OK)
	})
}

// TestWatch: a watched condition is also checked while it is in order, as often as allowed.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBoard()
		asked := 0
		b.Watch("disk", time.Minute, func(context.Context) {
			if asked++; asked == 2 {
				b.Set("disk", Finding{Degraded, "full", ""})
			}
		})
		for range 3 {
			b.Conditions(t.Context())
		}
		time.Sleep(time.Minute)
		if got := b.Conditions(t.Context())[0]; asked != 2 || got.State != Degraded {
			t.Errorf("asked %d times: %+v", asked, got)
		}
	})
}

// TestMetric checks the metric that alerts are written for.
func TestMetric(t *testing.T) {
	b, _ := testBoard()
	b.Set("disk", Finding{Degraded, "full", ""})
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(b.Collector())
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := `# HELP meshgate_condition What is in order and what is not, as /ready says it: 1 for the state of each condition, 0 for the others.
# TYPE meshgate_condition gauge
meshgate_condition{condition="clock",state="degraded"} 0
meshgate_condition{condition="clock",state="failed"} 0
meshgate_condition{condition="clock",state="ok"} 1
meshgate_condition{condition="disk",state="degraded"} 1
meshgate_condition{condition="disk",state="failed"} 0
meshgate_condition{condition="disk",state="ok"} 0
`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Error(diff)
	}
}

// TestMoves: a waiting caller is woken by each change of state or reason, and by nothing
// else.
func TestMoves(t *testing.T) {
	b, _ := testBoard()
	for i, tc := range []struct {
		f    Finding
		news bool
	}{
		{Finding{State: OK}, false},
		{Finding{Degraded, "full", "a"}, true},
		{Finding{Degraded, "full", "b"}, false},
		{Finding{Degraded, "away", "b"}, true},
		{Finding{Failed, "away", "b"}, true},
		{Finding{State: OK}, true},
	} {
		before, moved := b.Moves()
		b.Set("disk", tc.f)
		woken := false
		select {
		case <-moved:
			woken = true
		default:
		}
		if now, _ := b.Moves(); woken != tc.news || (now != before) != tc.news {
			t.Errorf("%d: woken %t, from %d to %d", i, woken, before, now)
		}
	}
}
