package delivery

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// streak are the last requests that a receiver has not taken, all with the same events: how many have failed, and how
// many since another cause were outages.
type streak struct {
	events            string
	failures, outages int
	// lost are the last of them that have not arrived: nobody knows their events.
	lost int
}

// note notes a request.
func (s *streak) note(ids []string, status int, outage bool) {
	s.lost++
	if status != unreached {
		events := fmt.Sprint(ids[0], " and ", len(ids))
		if lost := s.lost - 1; events != s.events {
			*s = streak{events: events, failures: lost, outages: lost}
		}
		s.lost = 0
	}
	switch {
	case status == http.StatusOK || status == http.StatusBadRequest:
		*s = streak{}
	case outage:
		s.failures, s.outages = s.failures+1, s.outages+1
	default:
		s.failures, s.outages = s.failures+1, 0
	}
}

// streaks returns the last requests that were not taken, and forgets them.
func (r *receiver) streaks() streak {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streak
	r.streak = streak{}
	return s
}

// draw makes a receiver bear some number of events, and be down for some of the next attempts.
func (r *receiver) draw(random *rand.Rand) {
	r.down(random.IntN(3)*random.IntN(1+random.IntN(4*attempts)), outages...)
	r.mu.Lock()
	defer r.mu.Unlock()
	random.Shuffle(len(r.answers), func(i, j int) { r.answers[i], r.answers[j] = r.answers[j], r.answers[i] })
	r.bears, r.streak = 1+random.IntN(maxBatch), streak{}
}

// drawn is what may be known of a receiver.
func drawn(random *rand.Rand, known sizing) sizing {
	switch limit := 2 + random.IntN(maxBatch-1); random.IntN(4) {
	case 0:
		return whole
	case 1: // it may be tried
		return sizing{most: limit, limit: limit, patience: minPatience}
	case 2:
		return sizing{most: 1 + random.IntN(limit-1), limit: limit, taken: random.IntN(minPatience), patience: minPatience}
	}
	return known
}

// TestReplaysWhateverComes: receivers that bear so many events, refuse some, and are down at times. A job fails only
// after all attempts of the same events have met an outage, and in the end each one brings all events that are not
// refused.
func TestReplaysWhateverComes(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w, r, hand, ids := delivered(t, 1+random.IntN(300))
			for range 6 {
				var refused []string
				for range random.IntN(4) {
					refused = append(refused, ids[random.IntN(len(ids))])
				}
				r.refuse(refused...)
				r.draw(random)
				hand.replayed = drawn(random, hand.replayed)
				known := hand.replayed
				status, _ := w.rerun(r, hand)
				if status == cloud.ReplayCompleted {
					if got, want := r.events(), without(ids, refused...); !slices.Equal(got, want) {
						t.Fatalf("%d of %d came again", len(got), len(want))
					}
				} else if s := r.streaks(); s.outages < attempts {
					t.Fatalf("a job of %d is %s after %+v, its receiver bears %d: %+v", len(ids), status, s, r.bears, known)
				}
			}
		})
	}
}

// TestEventsWhateverComes: what happens is delivered to such receivers in order and once, and a delivery fails only
// after all attempts of the same events.
func TestEventsWhateverComes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			w, r, hand, ids := delivered(t, 1)
			want := ids[:0]
			for range 6 {
				r.draw(random)
				hand.live = drawn(random, hand.live)
				known, from := hand.live, len(want)+1
				want = append(want, w.happen("p", from, from+1+random.IntN(200))...)
				for !w.at("p", uint64(len(want)+1))() {
					got, err := hand.turn(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for len(r.seen) > 0 {
						<-r.seen
					}
					if got != failed {
						continue
					}
					if s := r.streaks(); s.failures < attempts {
						t.Fatalf("a delivery has failed after %+v, its receiver bears %d: %+v", s, r.bears, known)
					}
				}
			}
			if got := r.events(); !slices.Equal(got, want) {
				t.Errorf("%d of %d came", len(got), len(want))
			}
		})
	}
}
