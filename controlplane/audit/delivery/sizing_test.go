package delivery

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// byHand returns the worker of a portal of an engine that does nothing by itself.
func (w *world) byHand(portal string) (hand *worker) {
	w.t.Helper()
	e, client := w.ready()
	end := e.begin(func(started *worker) { hand = started })
	e.wake(portal, true)
	w.t.Cleanup(func() {
		end()
		hand.leave(context.Background())
		client.Close()
	})
	return hand
}

// takeTurns has a worker take turns until something holds, at most so many.
func (w *world) takeTurns(hand *worker, most int, holds func() bool) (taken int) {
	w.t.Helper()
	for !holds() {
		if taken == most {
			w.t.Fatalf("%d turns are not enough: %+v", taken, w.progress(hand.portal))
		}
		if _, err := hand.turn(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		taken++
	}
	return taken
}

// at reports whether a delivery is done with so many events.
func (w *world) at(portal string, n uint64) func() bool {
	return func() bool { return w.progress(portal).Cursor == cloud.EventName(portal, n) }
}

// refuse lets a receiver refuse some events.
func (r *receiver) refuse(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses, r.taken = map[string]bool{}, nil
	for _, id := range ids {
		r.refuses[id] = true
	}
}

// TestHalvesBesideAReplay: an event that is refused is found also while a replay goes well.
func TestHalvesBesideAReplay(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.happen("p", 0, 3000)
	hand := w.byHand("p")
	w.takeTurns(hand, 15, w.at("p", 3000))
	r.refuse("p-3000")
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.happen("p", 3000, 3008)
	w.takeTurns(hand, 8, w.at("p", 3008))
	if j := w.job("p"); !j.Open() || w.engine.Stats().GivenUp != 1 {
		t.Errorf("%+v, %+v", j, w.engine.Stats())
	}
}

// TestReplayHalvesBesideEvents: a replay gets past an event that is refused also while what happens goes well, and
// then passes over what is outside of its span by the page.
func TestReplayHalvesBesideEvents(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	all := w.happen("p", 0, 10)
	end := w.time()
	w.pass(time.Hour)
	w.happen("p", 10, 2000)
	hand := w.byHand("p")
	w.takeTurns(hand, 10, w.at("p", 2000))
	r.refuse("p-9")
	w.again("p", end.Add(-time.Hour), end)
	next := 2000
	w.takeTurns(hand, 30, func() bool {
		w.happen("p", next, next+1)
		next++
		return w.ended("p")()
	})
	got := slices.DeleteFunc(r.events(), func(id string) bool { return !slices.Contains(all, id) })
	if j := w.job("p"); !slices.Equal(got, all[:9]) || j.Status != cloud.ReplayCompleted {
		t.Errorf("%v, %+v", got, j)
	}
}

// TestTooMuchAtOnce: a receiver that fails at many events gets fewer with each delivery until it bears them, and
// is seldom tried with more. Nothing is given up.
func TestTooMuchAtOnce(t *testing.T) {
	for name, cuts := range map[string]bool{"500": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := newReceiver(t)
			r.bears, r.cuts = 30, cuts
			w.hook("p", r, true)
			want := w.happen("p", 0, 500)
			w.start()
			failures := 0
			until(t, "all events", func() bool {
				select {
				case <-w.held:
					if failures++; failures > 6 {
						t.Fatalf("it fails time and again: %+v", w.progress("p"))
					}
					w.resume()
				default:
				}
				return w.at("p", 500)()
			})
			if got := r.events(); !slices.Equal(got, want) || w.engine.Stats().GivenUp > 0 {
				t.Errorf("%d events arrived, %+v", len(got), w.engine.Stats())
			}
		})
	}
}

// TestFailsAtOne: of events one of which makes the receiver fail, those before it arrive. It is not given up, and
// goes on when the receiver bears it.
func TestFailsAtOne(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	r.refusal = http.StatusInternalServerError
	r.refuse("p-77")
	w.hook("p", r, true)
	want := w.happen("p", 0, 100)
	w.start()
	for failures := 0; len(r.events()) < 77 || failures < 12; failures++ {
		if failures == 20 {
			t.Fatalf("%d arrived", len(r.events()))
		}
		<-w.held
		w.resume()
	}
	<-w.held
	if d := w.progress("p"); d.Cursor != cloud.EventName("p", 77) || !d.Failed || w.engine.Stats().GivenUp > 0 {
		t.Errorf("%+v, %+v", d, w.engine.Stats())
	}
	r.mu.Lock()
	r.refuses = nil
	r.mu.Unlock()
	w.resume()
	until(t, "the rest", w.at("p", 100))
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}

// TestProofOfAnother: what one receiver takes after it has refused an event proves nothing about another one,
// which may refuse everything.
func TestProofOfAnother(t *testing.T) {
	w := newWorld(t)
	first, second := newReceiver(t), newReceiver(t, slices.Repeat([]int{http.StatusBadRequest}, 100)...)
	first.refuse("p-3")
	w.hook("p", first, true)
	w.happen("p", 0, 4)
	hand := w.byHand("p")
	w.takeTurns(hand, 10, w.at("p", 3))
	w.hook("p", second, true)
	w.takeTurns(hand, 10, func() bool { return w.progress("p").Failed })
	if d := w.progress("p"); d.Cursor != cloud.EventName("p", 3) || w.engine.Stats().GivenUp > 0 {
		t.Errorf("%+v, %+v", d, w.engine.Stats())
	}
}
