package delivery

import (
	"math/rand/v2"
	"net/http"
	"testing"
)

// bearer is a receiver that bears so many events at once, is down for the next attempts, and refuses an event now and
// then for what it is.
type bearer struct {
	bears   int
	down    []result
	refuses func(event int) bool
	// row is how many of the last attempts, with the same events, have met an outage.
	row int
}

// momentary are failures of receivers that are down.
var momentary = []result{{}, {broken: true}, {status: http.StatusBadGateway}, after(http.StatusTooManyRequests, "2"), after(http.StatusServiceUnavailable, "3")}

// goDown lets the next attempts fail.
func (m *bearer) goDown(random *rand.Rand, attempts int) {
	m.down = nil
	for range attempts {
		m.down = append(m.down, momentary[random.IntN(len(momentary))])
	}
}

// answer is what a request of events from one to before another comes to.
func (m *bearer) answer(from, to int) (r result) {
	if len(m.down) > 0 {
		r, m.down = m.down[0], m.down[1:]
		m.row++
		return r
	}
	m.row = 0
	if to-from > m.bears {
		return result{status: http.StatusInternalServerError}
	}
	for e := from; e < to; e++ {
		if m.refuses != nil && m.refuses(e) {
			return result{status: http.StatusBadRequest}
		}
	}
	return result{status: http.StatusOK}
}

// try makes all attempts of a request.
func (m *bearer) try(s *sizing, from, to int) (r result) {
	m.row = 0
	for retries, strained := 0, false; ; retries++ {
		r = m.answer(from, to)
		r.strained, strained = strained, strained || r.heavy()
		if _, again := r.again(retries, now); !again || to-from >= s.limit && r.heavy() {
			return r
		}
	}
}

// job sends so many events as a replay does. It returns how many requests that took, each with all its attempts, how
// many of these failed for their size or an outage, and whether all went well.
func (m *bearer) job(s *sizing, events int) (requests, failed int, completed bool) {
	for at := 0; at < events; requests++ {
		n := min(s.most, events-at)
		r := m.try(s, at, at+n)
		switch {
		case r.delivered():
			s.grow(n)
			at += n
		case r.unwanted() && n > 1:
			s.halve(n)
		case r.unwanted():
			at++
		default:
			failed++
			if s.shrink(&r, n); n == 1 || !r.heavy() {
				return requests + 1, failed, false
			}
		}
	}
	return requests, failed, true
}

// TestSizesNearWhatIsBorne: whatever a receiver bears, requests come to within an eighth of it, few fail on the way,
// and the limit is tried again seldom while it holds.
func TestSizesNearWhatIsBorne(t *testing.T) {
	for bears := 1; bears <= maxBatch; bears++ {
		s, m := whole, bearer{bears: bears}
		_, found, completed := m.job(&s, 8*maxBatch)
		requests, failed, again := m.job(&s, 5000*bears)
		if !completed || !again || found > 12 || failed > 10 || requests > 5000*5/4 {
			t.Errorf("%d: %v %v, %d failed at first, %d of %d then", bears, completed, again, found, failed, requests)
		}
	}
}

// TestSizesRecover: after outages that hit requests of any size at any time, and end at any time, requests are soon
// as large as before, also those to a receiver that bears more then.
func TestSizesRecover(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		s := whole
		m := bearer{bears: 1 + random.IntN(maxBatch)}
		for range 20 {
			m.goDown(random, random.IntN(3*attempts)*random.IntN(2))
			if random.IntN(4) == 0 { // a limit may be tried
				s.most = min(s.limit, maxBatch)
			}
			if _, _, completed := m.job(&s, 1+random.IntN(3*maxBatch)); !completed && m.row < attempts {
				t.Fatalf("a job failed at a receiver that bears %d after %d attempts: %+v", m.bears, m.row, s)
			}
		}
		m.bears, m.down = m.bears+random.IntN(maxBatch-m.bears+1), nil
		s.patience = minPatience // a new job
		events := 400 * m.bears
		requests, _, completed := m.job(&s, events)
		if !completed || requests > 400*5/4+100 {
			t.Fatalf("%v after %d requests, %d bear 400: %+v", completed, requests, m.bears, s)
		}
	}
}

// TestSizesWhateverIsRefused: events that are refused here and there keep requests neither small nor failing.
func TestSizesWhateverIsRefused(t *testing.T) {
	for bears := 1; bears <= maxBatch; bears++ {
		s, m := whole, bearer{bears: bears, refuses: func(event int) bool { return event%2000 == 77 }}
		requests, failed, completed := m.job(&s, 40*2000)
		// Each of those refused is found by halving, after which requests double again.
		if most := 40*2000/bears*3/2 + 40*2*9 + 100; !completed || requests > most || failed > 30 {
			t.Errorf("%d: %v, %d requests, %d failed", bears, completed, requests, failed)
		}
		m.refuses = nil
		if _, _, completed := m.job(&s, 20*maxBatch); !completed || s.most*9/8+1 < bears {
			t.Errorf("%d: %v, %+v", bears, completed, s)
		}
	}
}

// TestSizesByWhatFailed: a limit follows from a request about as large as it may be that fails while a single event
// is taken, and from nothing else. A single event that fails lets an older limit be tried again at once.
func TestSizesByWhatFailed(t *testing.T) {
	long := sizing{most: 5, limit: 6, patience: maxPatience}
	for name, c := range map[string]struct {
		sizing
		failed []int
		want   sizing
	}{
		"full":         {whole, []int{200}, sizing{most: 2, limit: 200, taken: 1, patience: minPatience}},
		"few":          {whole, []int{3}, sizing{most: 2, limit: none, taken: 1, patience: minPatience}},
		"an outage":    {whole, []int{200, 1}, sizing{most: 2, limit: none, taken: minPatience + 1, patience: minPatience}},
		"an old limit": {long, []int{1}, sizing{most: 6, limit: 6, patience: minPatience}},
	} {
		s := c.sizing
		for _, n := range c.failed {
			s.shrink(&result{status: http.StatusBadGateway}, n)
		}
		if s.grow(1); s != c.want {
			t.Errorf("%s: %+v, want %+v", name, s, c.want)
		}
	}
}
