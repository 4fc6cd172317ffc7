package delivery

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// turns are the lines about webhooks that become active or inactive, without their times.
func (l *lines) turns() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if _, text, _ := strings.Cut(line, " "); strings.Contains(text, "a webhook is ") {
			list = append(list, strings.TrimSpace(text))
		}
	}
	return list
}

// TestTurns: that a webhook becomes inactive is said and counted once, however often its deliveries fail then, and
// that it is active again is said.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	said := &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	r := newReceiver(t, slices.Repeat([]int{http.StatusBadGateway}, 10)...)
	w.hook("p", r, true)
	w.start()
	w.happen("p", 0, 1)
	const pairs = " portal=p destination=to-"
	inactive := `level=WARN msg="a webhook is inactive: the receiver does not take what it is sent, which is kept and tried again"` + pairs + r.URL + ` status=502 reason=""`
	active := `level=INFO msg="a webhook is active again"` + pairs + r.URL
	expect := func(what string, turns uint64, want ...string) {
		t.Helper()
		if got := said.turns(); !slices.Equal(got, want) || w.engine.Stats().Turns != turns {
			t.Errorf("%s: %d turns, and it says\n%s\nwant\n%s", what, w.engine.Stats().Turns, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	<-w.held
	expect("after the first delivery", 1, inactive)
	w.resume()
	<-w.held
	expect("after the second", 1, inactive)
	w.resume()
	until(t, "active", func() bool { return len(said.turns()) == 2 })
	expect("after the third", 1, inactive, active)
	r.mu.Lock()
	r.answers = []int{http.StatusNotFound}
	r.mu.Unlock()
	w.happen("p", 1, 2)
	<-w.held
	expect("after another one", 2, inactive, active, strings.Replace(inactive, "502", fmt.Sprint(http.StatusNotFound), 1))
}
