package delivery

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// unreached is the answer of a receiver to which no connection is made.
const unreached = -1

// outages are what a receiver that is down for a moment answers.
var outages = []int{unreached, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}

// reached makes connections to a receiver fail when that is its next answer.
func (w *world) reached(r *receiver) {
	r.Config.SetKeepAlivesEnabled(false) // one for each request
	w.connects = func(netip.AddrPort) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.answers) == 0 || r.answers[0] != unreached {
			return false
		}
		r.tries, r.answers = r.tries+1, r.answers[1:]
		r.streak.note(nil, unreached, true)
		return true
	}
}

// TestAMomentEndsNothing: one failure that passes ends no replay job and no delivery, whatever was found out about
// sizes before: neither when a limit may be tried, nor when one is tried.
func TestAMomentEndsNothing(t *testing.T) {
	for _, status := range outages {
		for _, limit := range []int{100, none} {
			for _, events := range []int{1, 99, 100, 250} {
				t.Run(fmt.Sprintf("%d, %d of %d", status, events, limit), func(t *testing.T) {
					w, r, hand, ids := delivered(t, events)
					s := sizing{most: min(limit, maxBatch), limit: limit, patience: minPatience}
					hand.live, hand.replayed = s, s
					r.down(1, status)
					if got, _ := w.rerun(r, hand); got != cloud.ReplayCompleted || !slices.Equal(r.events(), ids) {
						t.Errorf("the job is %s, %d events came again", got, len(r.events()))
					}
					r.refuse()
					r.down(1, status)
					more := w.happen("p", events, 2*events)
					w.takeTurns(hand, 20, func() bool {
						if w.progress("p").Failed {
							t.Fatal("the delivery has failed")
						}
						return w.at("p", uint64(2*events))()
					})
					if !slices.Equal(r.events(), more) {
						t.Errorf("%d events came", len(r.events()))
					}
				})
			}
		}
	}
}

// TestFewerThanTheLimit: a request tries a limit by what is in it, not by what might be: neither a few events nor
// those that are large are a try.
func TestFewerThanTheLimit(t *testing.T) {
	const events = 60
	for name, limit := range map[string]int{"few": events + 1, "large": events} {
		t.Run(name, func(t *testing.T) {
			w, r, hand, ids := delivered(t, 1)
			text := ""
			if name == "large" {
				text = strings.Repeat("\x01", maxText) // six bytes each
			}
			for i := 1; i < events; i++ {
				ids = append(ids, fmt.Sprint(i))
				w.write(func(tx store.Tx) error {
					return Put(tx, audit.Event{ID: ids[i], Portal: "p", Time: w.time(), Outcome: audit.Success, Method: audit.Basic, UserAgent: text, Request: text})
				})
			}
			w.takeTurns(hand, 4, w.at("p", events))
			hand.replayed = sizing{most: limit, limit: limit, patience: minPatience}
			r.refuse()
			r.down(attempts-1, http.StatusBadGateway)
			w.pass(time.Second)
			w.again("p", w.time().Add(-time.Hour), w.time())
			before := r.requests()
			if got, err := hand.replay(t.Context()); err != nil || got != went {
				t.Fatal(got, err)
			}
			if n, got := r.requests()-before, r.events(); n != attempts || len(got) < 2 || !slices.Equal(got, ids[:len(got)]) {
				t.Errorf("%d requests, %d came again", n, len(got))
			}
		})
	}
}

// TestReplayWaitsAsItIsTold: a receiver that says when to ask again is left alone so long also if fewer events
// are to come then, as after a try of the limit.
func TestReplayWaitsAsItIsTold(t *testing.T) {
	for name, s := range map[string]sizing{"a try": {most: 100, limit: 100, patience: minPatience}, "all attempts": whole} {
		t.Run(name, func(t *testing.T) {
			w, r, hand, ids := delivered(t, 100)
			hand.replayed = s
			failures := attempts
			if s.limit < none {
				failures = 1
			}
			r.down(failures, http.StatusServiceUnavailable)
			before := len(w.waited())
			if status, _ := w.rerun(r, hand); status != cloud.ReplayCompleted || !slices.Equal(r.events(), ids) {
				t.Errorf("%s, %d came again", status, len(r.events()))
			}
			if got := w.waited()[before:]; !slices.Equal(got, slices.Repeat([]time.Duration{7 * time.Second}, failures)) {
				t.Errorf("the waits are %v", got)
			}
		})
	}
}

// TestTestEndsTheWaitOfAReplay: a test of the receiver, also one that was asked for during the request, is not kept
// waiting by what the receiver has said of a large request of a replay.
func TestTestEndsTheWaitOfAReplay(t *testing.T) {
	w, r, hand, _ := delivered(t, 100)
	hand.replayed = sizing{most: 100, limit: 100, patience: minPatience}
	w.pass(time.Second)
	w.again("p", w.time().Add(-time.Hour), w.time())
	r.down(1, http.StatusServiceUnavailable)
	before := len(w.waited())
	hand.asked.Store(true)
	if got, err := hand.replay(t.Context()); err != nil || got != moved {
		t.Errorf("%v, %v", got, err)
	}
	if waits := w.waited()[before:]; len(waits) > 0 {
		t.Errorf("waited %v", waits)
	}
}

// TestBreaksAtMany: a receiver that ends at many events, and is not back when they come again, gets fewer then.
func TestBreaksAtMany(t *testing.T) {
	for _, then := range []int{unreached, http.StatusTooManyRequests} {
		crash := append([]int{http.StatusBadGateway}, slices.Repeat([]int{then}, attempts-1)...)
		w, r, hand, ids := delivered(t, 10)
		r.mu.Lock()
		r.answers = crash
		r.mu.Unlock()
		if status, _ := w.rerun(r, hand); status != cloud.ReplayCompleted || !slices.Equal(r.events(), ids) {
			t.Errorf("%d: %s, %d came again", then, status, len(r.events()))
		}
		r.refuse()
		r.mu.Lock()
		r.answers = crash
		r.mu.Unlock()
		hand.live = whole
		more := w.happen("p", 10, 20)
		if got, err := hand.turn(t.Context()); err != nil || got != failed {
			t.Fatal(got, err)
		}
		if got, err := hand.turn(t.Context()); err != nil || got != went || !slices.Equal(r.events(), more[:1]) {
			t.Errorf("%d: %v came, %v, %v", then, r.events(), got, err)
		}
	}
}

// TestBurstsComeTogether: the first event of a burst waits for the others, also at a receiver of which a limit is
// known, and after a batch that was full.
func TestBurstsComeTogether(t *testing.T) {
	for name, s := range map[string]sizing{"whole": whole, "limited": {most: 60, limit: 100, patience: maxPatience}} {
		t.Run(name, func(t *testing.T) {
			w, r, hand, _ := delivered(t, 1)
			hand.live = s
			count := 1
			for _, burst := range []int{5, s.most, 5} {
				first := w.happen("p", count, count+1)
				w.gathers = func() {
					w.gathers = nil
					first = append(first, w.happen("p", count+1, count+burst)...)
				}
				r.refuse()
				for got := went; got != nothing; {
					var err error
					if got, err = hand.turn(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				count += burst
				if got := r.requests(); w.gathers != nil || !slices.Equal(r.events(), first) {
					t.Errorf("the first of %d events went alone: %d requests", burst, got)
				}
			}
			if n := r.requests(); n != 1+3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestReplaysDoNotWaitForMore: between two requests of a replay nobody waits for what may happen meanwhile.
func TestReplaysDoNotWaitForMore(t *testing.T) {
	const events = 40
	w, r, hand, ids := delivered(t, events)
	waits := 0
	w.gathers = func() { waits++ }
	hand.replayed = sizing{most: 1, limit: none, patience: maxPatience}
	w.pass(time.Second)
	w.again("p", w.time().Add(-time.Hour), w.time())
	r.refuse()
	for got := went; got != nothing; {
		var err error
		if got, err = hand.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.requests(); n < 1+3 || !slices.Equal(r.events(), ids) {
		t.Errorf("%d requests: %v", n, r.events())
	}
	if waits > 2 { // before the first request, and at the end
		t.Errorf("waited for more %d times", waits)
	}
}
