package delivery

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// again begins a replay job.
func (w *world) again(portal string, start, end time.Time) {
	w.t.Helper()
	number := uuid.NewString()
	w.write(func(tx store.Tx) error {
		_, err := ReplayRequest(tx, portal, number, start, end)
		return err
	})
}

// job is the replay job of a portal.
func (w *world) job(portal string) (job cloud.Replay) {
	w.t.Helper()
	err := w.s.View(w.t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.Replays, "", portal)
		if err == nil {
			job = *res.Spec.(*cloud.Replay)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return job
}

func (w *world) ended(portal string) func() bool {
	return func() bool { j := w.job(portal); return !j.Open() }
}

// TestReplay: the events of a span are delivered once more, in order, whatever fails on the way, and
// those before and after the span are not.
func TestReplay(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.hook("q", r, true)
	w.start()
	step := func(from, to int) ([]string, time.Time) {
		w.mu.Lock()
		w.now = w.now.Add(time.Hour)
		at := w.now
		w.mu.Unlock()
		return w.happen("p", from, to), at
	}
	before, _ := step(0, 250)
	within, start := step(250, 900)
	more, end := step(900, 910)
	after, _ := step(910, 920)
	w.happen("q", 0, 10)
	until(t, "all events", func() bool { return len(r.events()) == 930 })
	r.mu.Lock()
	r.taken, r.answers = nil, []int{500, 429, 200, 503}
	r.mu.Unlock()
	w.again("p", start, end)
	until(t, "the end of the job", w.ended("p"))
	if got := r.events(); !slices.Equal(got, append(within, more...)) || w.job("p").Status != cloud.ReplayCompleted {
		t.Errorf("%d events of %d came again, %+v", len(got), len(within)+len(more), w.job("p"))
	}
	if d := w.progress("p"); d.Cursor != cloud.EventName("p", uint64(len(before)+len(within)+len(more)+len(after))) || d.Failed {
		t.Errorf("the delivery is at %+v", d)
	}
}

// TestReplayOfNothing: a span without events is done with at once, and so is a portal without any.
func TestReplayOfNothing(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.hook("q", r, true)
	w.start()
	w.happen("p", 0, 1)
	until(t, "the event", func() bool { return len(r.events()) == 1 })
	for _, portal := range []string{"p", "q"} {
		w.again(portal, w.time().Add(-2*time.Hour), w.time().Add(-time.Hour))
		until(t, "the end of the job", w.ended(portal))
		if j := w.job(portal); j.Status != cloud.ReplayCompleted || len(r.events()) != 1 {
			t.Errorf("%s: %+v, %d events", portal, j, len(r.events()))
		}
	}
}

// TestReplayFails: a job whose receiver fails has failed, the webhook says so, and what happens next
// is delivered.
func TestReplayFails(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.start()
	w.happen("p", 0, 2)
	until(t, "the events", func() bool { return len(r.events()) == 2 })
	r.mu.Lock()
	r.answers = slices.Repeat([]int{500}, 2*attempts) // of both events, and of the first one alone
	r.mu.Unlock()
	w.again("p", w.time().Add(-time.Hour), w.time())
	until(t, "the end of the job", w.ended("p"))
	if j, d := w.job("p"), w.progress("p"); j.Status != cloud.ReplayFailed || !d.Failed || d.Code != http.StatusInternalServerError {
		t.Errorf("%+v %+v", j, d)
	}
	want := append([]string{"p-0", "p-1"}, w.happen("p", 2, 3)...)
	until(t, "the next event", func() bool { return len(r.events()) == 3 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	until(t, "active", func() bool { return !w.progress("p").Failed })
}

// TestReplayToWhoRefusesEverything: a job whose receiver takes nothing of what comes again has failed, and costs it
// few requests. Events that it refuses here and there keep none of the others from coming again.
func TestReplayToWhoRefusesEverything(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	all := w.happen("p", 0, 300)
	hand := w.byHand("p")
	w.takeTurns(hand, 5, w.at("p", 300))
	some := make([]string, 0, len(all))
	for i, id := range all {
		if i%20 < maxSingles { // so many in a row
			some = append(some, id)
		}
	}
	r.refuse(some...)
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.takeTurns(hand, 1000, w.ended("p"))
	if got := r.events(); w.job("p").Status != cloud.ReplayCompleted || !slices.Equal(got, without(all, some...)) {
		t.Errorf("%d came again of %d, %+v", len(got), len(all)-len(some), w.job("p"))
	}
	r.refuse(all...)
	before := r.requests()
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.takeTurns(hand, 50, w.ended("p"))
	if j, d := w.job("p"), w.progress("p"); j.Status != cloud.ReplayFailed || !d.Failed || d.Code != http.StatusBadRequest {
		t.Errorf("%+v %+v", j, d)
	}
	if n := r.requests() - before; n > 20 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestReplayGoesOnWithTheReceiverOfNow: the failure of a receiver that is no longer the one ends no job, and what that
// one has refused is offered to the receiver of now.
func TestReplayGoesOnWithTheReceiverOfNow(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) { replayMended(t, status, 3) })
	}
	t.Run("a single one", func(t *testing.T) { replayMended(t, http.StatusBadRequest, 1) })
}

func replayMended(t *testing.T, status, events int) {
	t.Helper()
	w := newWorld(t)
	former, now := newReceiver(t), newReceiver(t)
	w.hook("p", former, true)
	all := w.happen("p", 0, events)
	hand := w.byHand("p")
	w.takeTurns(hand, 5, w.at("p", uint64(events)))
	former.answering(func(rw http.ResponseWriter, _ *http.Request) {
		w.hook("p", now, true) // it is mended while it is asked
		rw.WriteHeader(status)
	})
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.takeTurns(hand, 10, w.ended("p"))
	if got := now.events(); w.job("p").Status != cloud.ReplayCompleted || !slices.Equal(got, all) {
		t.Errorf("%v came again, %+v", got, w.job("p"))
	}
}

// TestReplayGoesOn: a job that ends with its process goes on with the next one, and repeats no more
// than what was under way.
func TestReplayGoesOn(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	want := w.happen("p", 0, 900)
	stop := w.start()
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 900) })
	stop()
	r.mu.Lock()
	r.taken = nil
	r.mu.Unlock()
	w.again("p", w.time().Add(-time.Hour), w.time())
	ended := w.ended("p")
	rounds := 0
	for ; !ended(); rounds++ {
		before := len(r.events())
		stop := w.start()
		until(t, "progress", func() bool { return len(r.events()) > before || ended() })
		stop()
		if rounds > 200 {
			t.Fatalf("%+v", w.job("p"))
		}
	}
	if got := r.events(); !isSuper(got, want) {
		t.Errorf("%d events came again", len(got))
	}
	if n := len(r.events()); n > len(want)+maxBatch*rounds || w.job("p").Status != cloud.ReplayCompleted {
		t.Errorf("%d events, %+v", n, w.job("p"))
	}
}

// isSuper reports whether the first occurrences in a list are another list.
func isSuper(list, want []string) bool {
	seen := map[string]bool{}
	var first []string
	for _, s := range list {
		if !seen[s] {
			first = append(first, s)
		}
		seen[s] = true
	}
	return slices.Equal(first, want)
}

// TestReplayWaits: a job waits while its webhook is off, and is broken off between two attempts.
func TestReplayWaits(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.start()
	want := w.happen("p", 0, 2)
	until(t, "the events", func() bool { return len(r.events()) == 2 })
	w.mu.Lock()
	w.hold = true
	w.mu.Unlock()
	r.mu.Lock()
	r.answers, r.taken, r.tries = []int{500}, nil, 0
	r.mu.Unlock()
	w.again("p", w.time().Add(-time.Hour), w.time())
	<-w.held // between two attempts
	w.idle(func() { w.hook("p", r, false) })
	other := newReceiver(t)
	w.hook("q", other, true)
	w.happen("q", 0, 1)
	until(t, "the other portal", func() bool { return len(other.events()) == 1 })
	if r.mu.Lock(); r.tries != 1 {
		t.Errorf("%d tries", r.tries)
	}
	r.mu.Unlock()
	if j := w.job("p"); !j.Open() {
		t.Errorf("%+v", j)
	}
	w.hook("p", r, true)
	until(t, "the end of the job", w.ended("p"))
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestReplayHoldsUpNobody: what happens during a long job does not wait for its end, and neither waits
// the job for what happens.
func TestReplayHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.happen("p", 0, 2000)
	stop := w.start()
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 2000) })
	stop()
	r.mu.Lock()
	r.taken = nil
	r.mu.Unlock()
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.happen("p", 2000, 3000)
	w.start()
	until(t, "the end of the job", w.ended("p"))
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3000) })
	got := r.events()
	if len(got) != 3000 { // those that happen meanwhile are no part of the job
		t.Errorf("%d events arrived", len(got))
	}
	first, last := slices.Index(got, "p-0"), slices.Index(got, "p-2999")
	if first > 2*maxBatch || last > 2000+maxBatch {
		t.Errorf("the job began at event %d, and what happened had arrived at event %d", first, last)
	}
}

// TestForgotten: what is found out after a webhook was emptied counts no more, and what was given up
// stays so.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	r := newReceiver(t, 500)
	w.hook("p", r, true)
	w.start()
	w.happen("p", 0, 2)
	<-w.held
	w.write(func(tx store.Tx) error { return Forget(tx, "p") })
	if d := w.progress("p"); d != (cloud.Delivery{}) {
		t.Errorf("%+v", d)
	}
	w.hook("p", r, true)
	want := w.happen("p", 2, 3)
	until(t, "the event", func() bool { return len(r.events()) == 1 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestReplayStoresOnce: what a receiver has taken of a replay is stored together with how far the job is: a process
// that ends after any of its writes sends none of it again.
func TestReplayStoresOnce(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	want := w.happen("p", 0, 10)
	w.takeTurns(w.byHand("p"), 5, w.at("p", 10))
	r.refuse()
	w.pass(time.Second) // so that the next attempt is another one
	w.again("p", w.time().Add(-time.Hour), w.time())
	var dead *atomic.Bool
	lives, die := context.WithCancel(t.Context())
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		told := false
		c, err := w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			told = wrote(tx, cloud.Deliveries)
			return err
		})
		if told && err == nil {
			dead.Store(true)
			die()
		}
		return c, err
	})
	hand := w.byHand("p")
	dead = w.mute
	_, _ = hand.turn(lives) // whatever it says, the process dies at the first write of how it went
	if got := r.events(); !slices.Equal(got, want) || !dead.Load() {
		t.Fatalf("%v arrived before, and it is dead: %v", got, dead.Load())
	}
	w.writer = w.gate
	w.start()
	until(t, "the end of the job", w.ended("p"))
	if got := r.events(); !slices.Equal(got, want) || w.job("p").Status != cloud.ReplayCompleted {
		t.Errorf("%v arrived, %+v", got, w.job("p"))
	}
}
