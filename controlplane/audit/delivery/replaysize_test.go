package delivery

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// down lets the next attempts at a receiver fail, after all others. It says when to ask again where that counts.
func (r *receiver) down(attempts int, statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(statuses) == 0 {
		statuses = []int{http.StatusBadGateway}
	}
	r.later, r.answers = "7", nil
	for i := range attempts {
		r.answers = append(r.answers, statuses[i%len(statuses)])
	}
}

// attempts is how often a request is sent that always fails.
const attempts = 1 + maxRetries

// delivered delivers events to a receiver for the first time, and forgets what it has got.
func delivered(t *testing.T, events int) (w *world, r *receiver, hand *worker, ids []string) {
	t.Helper()
	w, r = newWorld(t), newReceiver(t)
	w.reached(r)
	w.hook("p", r, true)
	ids = w.happen("p", 0, events)
	hand = w.byHand("p")
	w.takeTurns(hand, 5+events/maxBatch, w.at("p", uint64(events)))
	r.refuse()
	return w, r, hand, ids
}

// rerun lets a whole replay happen, and returns how it ended and how many requests it took.
func (w *world) rerun(r *receiver, hand *worker) (status string, requests int) {
	w.t.Helper()
	before := r.requests()
	w.pass(time.Second)
	w.again("p", w.time().Add(-time.Hour), w.time())
	w.takeTurns(hand, 2000, func() bool {
		for len(r.seen) > 0 {
			<-r.seen // it has room for so many only
		}
		return w.ended("p")()
	})
	return w.job("p").Status, r.requests() - before
}

// TestReplaysGrowAgain: an outage, however few events a request has that meets it and however often jobs are made
// anew meanwhile, does not make the later jobs slow.
func TestReplaysGrowAgain(t *testing.T) {
	for name, outages := range map[string]int{"one": 1, "many": 8} {
		t.Run(name, func(t *testing.T) {
			w, r, hand, ids := delivered(t, 3)
			for range outages {
				r.down(100)
				if status, _ := w.rerun(r, hand); status != cloud.ReplayFailed {
					t.Fatalf("a job is %s while its receiver is down", status)
				}
			}
			r.down(0)
			ids = append(ids, w.happen("p", 3, 1200)...)
			w.takeTurns(hand, 30, w.at("p", 1200))
			r.refuse()
			hand.receiver, hand.replayed = nil, whole // as a new worker
			status, requests := w.rerun(r, hand)
			if got := r.events(); status != cloud.ReplayCompleted || !slices.Equal(got, ids) {
				t.Errorf("%s, %d events came again", status, len(got))
			}
			if requests > 6+8+2 { // those that are full, and those in which it grows
				t.Errorf("it took %d requests", requests)
			}
		})
	}
}

// TestReplayFindsWhatIsBorne: no job fails because its requests are too large at first, and one begins with what
// another one has found out.
func TestReplayFindsWhatIsBorne(t *testing.T) {
	for _, bears := range []int{1, 2, 30, 100, 199} {
		t.Run(fmt.Sprint(bears), func(t *testing.T) {
			w, r, hand, ids := delivered(t, 400)
			r.mu.Lock()
			r.bears = bears
			r.mu.Unlock()
			most := 2*(400/bears+1) + 60
			for i := range 2 {
				r.mu.Lock()
				r.taken = nil
				r.mu.Unlock()
				hand.receiver, hand.replayed = nil, whole // as a new worker
				status, requests := w.rerun(r, hand)
				if got := r.events(); status != cloud.ReplayCompleted || !slices.Equal(got, ids) {
					t.Fatalf("%d: %s, %d of %d came again", i, status, len(got), len(ids))
				}
				if requests >= most {
					t.Errorf("%d: it took %d requests", i, requests)
				}
				most = requests
			}
		})
	}
}

// TestReplayToWhoWasMended: a receiver that bore little for long, and bears more since, gets larger requests soon
// after the next job begins.
func TestReplayToWhoWasMended(t *testing.T) {
	w, r, hand, ids := delivered(t, 600)
	hand.replayed = sizing{most: 1, limit: 2, patience: maxPatience}
	status, requests := w.rerun(r, hand)
	if got := r.events(); status != cloud.ReplayCompleted || !slices.Equal(got, ids) || requests > minPatience+8+4 {
		t.Errorf("%s, %d came again in %d requests", status, len(got), requests)
	}
}

// TestLimitIsTriedOnce: what happens waits for a try of the limit of replays, so that has one attempt.
func TestLimitIsTriedOnce(t *testing.T) {
	w, r, hand, _ := delivered(t, 400)
	r.mu.Lock()
	r.bears = 60
	r.mu.Unlock()
	hand.replayed = sizing{most: 100, limit: 100, patience: minPatience}
	w.pass(time.Second)
	w.again("p", w.time().Add(-time.Hour), w.time())
	before := r.requests()
	for range 2 { // the try, and a single event
		if got, err := hand.replay(t.Context()); err != nil || got != went {
			t.Fatal(got, err)
		}
	}
	if n := r.requests() - before; n != 2 {
		t.Errorf("%d requests", n)
	}
	if hand.replayed.limit != 100 || hand.replayed.patience != 2*minPatience {
		t.Errorf("%+v", hand.replayed)
	}
}

// TestQuietReceiversAreKnown: a worker ends when nothing happens, and the next one knows what its receiver bears.
func TestQuietReceiversAreKnown(t *testing.T) {
	w, r, hand, _ := delivered(t, 1)
	r.mu.Lock()
	r.bears = 60
	r.mu.Unlock()
	deliver := func(from, to int) (requests int) {
		t.Helper()
		before := r.requests()
		w.happen("p", from, to)
		w.takeTurns(hand, 60, w.at("p", uint64(to)))
		hand.receiver, hand.live = nil, whole // as a new worker
		return r.requests() - before
	}
	deliver(1, 201)
	if n := deliver(201, 321); n > 4 {
		t.Errorf("%d requests", n)
	}
}

// TestEventsGrowAgain: what happens after an outage, which has met few events, is not delivered slowly.
func TestEventsGrowAgain(t *testing.T) {
	w, r, hand, _ := delivered(t, 1)
	ids := w.happen("p", 1, 4)
	r.down(100)
	for range 5 {
		if got, err := hand.turn(t.Context()); err != nil || got != failed {
			t.Fatal(got, err)
		}
	}
	r.down(0)
	ids = append(ids, w.happen("p", 4, 1200)...)
	before := r.requests()
	w.takeTurns(hand, 6+8, w.at("p", 1200))
	if got := r.events(); !slices.Equal(got, ids) || r.requests() > before+6+8 {
		t.Errorf("%d events, %d requests", len(got), r.requests()-before)
	}
}
