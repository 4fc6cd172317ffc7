package tokencache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// maxFlights bounds the tokens that wait to be looked up, maxWaiters the
	// requests waiting for them. Beyond them requests are refused; see turns and
	// share for whose.
	maxFlights = 1024
	maxWaiters = 16 << 10
	// waitTimeout bounds the wait of one request.
	waitTimeout = 2 * time.Second
	// roundTimeout bounds one look-up: two reads of Redis and an introspection
	// fit in. Whoever arrives just after a round began waits for two of them.
	roundTimeout = 950 * time.Millisecond
)

// Done receives the answer of a [Cache.Resolve]. The packed record is set for
// contract.Found, and for contract.Expired where it is still known; it is shared by
// all waiters of a token and must not be changed; it stays valid. Done must not block.
type Done func(answer contract.Answer, packed []byte)

// waiter is one request that waits for a token.
type waiter struct {
	cache    *Cache
	flight   *flight
	from     Source
	plugin   string
	deadline time.Duration // monotonic
	done     Done
}

// flight is the look-ups of one token, one after the other.
type flight struct {
	// from is who asked first. turn is set while a round waits for its turn or
	// has it.
	from Source
	turn *turn
	// waiting arrived after the current round began. They are not answered by
	// its reads, which may be older than they are: the next round serves them,
	// usually from what this one left in L1.
	waiting []*waiter
	// serving are the waiters of the current round.
	serving []*waiter
}

// flights are all look-ups in progress.
type flights struct {
	cache *Cache

	mu    sync.Mutex
	turns turns
	// rests are the look-ups that wait for a Welcome and have no turn meanwhile.
	rests   turns
	byHash  map[contract.Hash]*flight
	waiters share
	closed  bool
}

// Resolve asks L2 and the control plane about a token that L1 could not answer
// for, on behalf of the plugin instance that met it. It never blocks. done is
// called exactly once, within two seconds, with anything but Miss:
// usually on a goroutine of the cache, but before Resolve returns if the request
// is refused at once (too many waiting, or the cache is closed).
func (c *Cache) Resolve(hash contract.Hash, plugin string, done func(contract.Answer, []byte)) {
	c.ResolveFor(Source{}, hash, plugin, done)
}

// ResolveFor is Resolve on behalf of a source of questions: look-ups of different
// sources take turns, so that random tokens of one do not starve another. giveUp
// says that nobody wants the answer any more: a look-up that still waits for its
// turn leaves the row. It does not block, may be called at any time and from
// inside no Done, and done is called with Unavailable before it returns unless it
// has been called, or is about to be, with something else.
func (c *Cache) ResolveFor(from Source, hash contract.Hash, plugin string, done func(contract.Answer, []byte)) (giveUp func()) {
	w := &waiter{cache: c, from: from, plugin: plugin, deadline: c.clock.Now().Mono + waitTimeout, done: done}
	f := &c.flights
	f.mu.Lock()
	fl := f.byHash[hash]
	if f.closed || !f.waiters.take(from) {
		f.mu.Unlock()
		c.counters.rejected.Add(1)
		done(contract.Unavailable, nil)
		return func() {}
	}
	if fl != nil {
		w.flight = fl
		if fl.turn != nil && fl.turn.abandoned {
			fl.from = from // whoever asked first has gone
		}
		fl.waiting = append(fl.waiting, w)
		f.hasten(fl, from)
		f.mu.Unlock()
		c.counters.coalesced.Add(1)
		return w.giveUp
	}
	fl = &flight{waiting: []*waiter{w}, from: from, turn: f.turns.ask(from)}
	w.flight = fl
	if fl.turn.refused {
		f.waiters.give(from)
		f.mu.Unlock()
		c.counters.rejected.Add(1)
		done(contract.Unavailable, nil)
		return func() {}
	}
	if f.byHash == nil {
		f.byHash = map[contract.Hash]*flight{}
	}
	f.byHash[hash] = fl
	// Inside the lock, so that close, which takes it, sees the goroutine counted.
	c.start("lookup", func() { f.fly(hash, fl) })
	f.mu.Unlock()
	return w.giveUp
}

// giveUp ends the wait of one request. A look-up for which nobody waits any more
// leaves the row; one that has its turn goes on, and what it finds is remembered.
func (w *waiter) giveUp() {
	f, fl := &w.cache.flights, w.flight
	f.mu.Lock()
	i := slices.Index(fl.waiting, w)
	if i < 0 { // served, or answered
		f.mu.Unlock()
		return
	}
	fl.waiting = slices.Delete(fl.waiting, i, i+1)
	f.waiters.give(w.from)
	if len(fl.waiting) == 0 && fl.turn != nil {
		f.turns.abandon(fl.from, fl.turn)
	}
	f.mu.Unlock()
	w.cache.counters.abandoned.Add(1)
	w.cache.opts.Recover("lookup callback", func() { w.done(contract.Unavailable, nil) })
}

// hasten lets a look-up that waits for its turn wait in the row of another source
// that asks for the same token, if that row is shorter. mu is held.
func (f *flights) hasten(fl *flight, from Source) {
	if fl.turn == nil || !fl.turn.waits() || !f.turns.shorter(from, fl.from) {
		return
	}
	f.turns.leave(fl.from, fl.turn)
	fl.from = from
	f.turns.enqueue(from, fl.turn)
	f.turns.grant()
}

// close refuses new waiters. Those that wait are answered by their flights.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// fly runs rounds until nobody waits. Whatever happens in them, panics
// included, every waiter is answered.
func (f *flights) fly(hash contract.Hash, fl *flight) {
	defer f.abandon(hash, fl)
	for f.queue(hash, fl) {
		switch f.begin(fl) {
		case turnAbandoned: // somebody else may have come since
			continue
		case turnRefused:
			f.cache.counters.rejected.Add(1)
			f.settle(fl, "", unavailable)
			continue
		case turnGranted:
		}
		first := fl.serving[0]
		left := min(first.deadline-f.cache.clock.Now().Mono, roundTimeout)
		ctx, cancel := context.WithTimeout(f.cache.ctx, left)
		out := f.cache.lookUp(ctx, hash, first.plugin, func(ctx context.Context) *session { return f.rest(ctx, fl, cancel) })
		cancel()
		f.endTurn(fl)
		f.settle(fl, first.plugin, out)
	}
}

// queue asks for a turn for those who wait, unless [Cache.ResolveFor] has. Without
// any it ends the flight and returns false.
func (f *flights) queue(hash contract.Hash, fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(fl.waiting) == 0 {
		delete(f.byHash, hash)
		return false
	}
	if fl.turn == nil {
		fl.turn = f.turns.ask(fl.from)
	}
	return true
}

// beginning is what comes of waiting for a turn.
type beginning uint8

const (
	turnGranted beginning = iota
	// turnRefused: the row is too long or the time is over.
	turnRefused
	// turnAbandoned: nobody waited any more.
	turnAbandoned
)

// begin waits for the turn and makes those who wait then the ones that are
// served.
func (f *flights) begin(fl *flight) beginning {
	f.mu.Lock()
	turn, wait := fl.turn, time.Duration(0)
	if len(fl.waiting) > 0 {
		wait = fl.waiting[0].deadline - f.cache.clock.Now().Mono
	}
	f.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-turn.begin:
	case <-timer.C:
	case <-f.cache.ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !turn.granted || len(fl.waiting) == 0 {
		f.turns.end(fl.from, turn)
		fl.turn = nil
		if turn.abandoned || len(fl.waiting) == 0 {
			return turnAbandoned
		}
		return turnRefused
	}
	fl.serving, fl.waiting = fl.waiting, nil
	return turnGranted
}

// endTurn lets the next one begin.
func (f *flights) endTurn(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.turn != nil {
		f.turns.end(fl.from, fl.turn)
		fl.turn = nil
	}
}

// rest returns the link. It waits for one that may be there at once, without the turn: a
// control plane that starts can take most of a round for its Welcome, and tokens that
// nobody knows would keep those out that Redis can answer for. It returns nil if there is
// no link. A round that does not get its turn back is over, which over tells it.
func (f *flights) rest(ctx context.Context, fl *flight, over context.CancelFunc) *session {
	attempted := f.cache.attempted()
	if s := f.cache.session.Load(); s != nil {
		return s
	}
	select {
	case <-attempted:
		return f.cache.session.Load() // it may just have come
	default:
	}
	f.mu.Lock()
	from := fl.from
	if fl.turn == nil { // the round is over already
		f.mu.Unlock()
		return nil
	}
	f.turns.end(from, fl.turn)
	fl.turn = nil
	f.rests.resting = true
	row := f.rests.ask(from)
	f.mu.Unlock()
	select {
	case <-attempted:
	case <-row.begin: // refused
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.rests.end(from, row)
	if row.refused || ctx.Err() != nil {
		f.mu.Unlock()
		over()
		return nil
	}
	turn := f.turns.ask(from)
	f.mu.Unlock()
	select {
	case <-turn.begin:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !turn.granted {
		f.turns.end(from, turn)
		over()
		return nil
	}
	fl.turn = turn
	return f.cache.session.Load()
}

// settle answers the waiters of a round. Unavailable is for those too who came
// while it lasted: it says nothing about the token, and to try once more for
// them could make them wait beyond their time. But a control plane that may not
// speak about one plugin may speak about another: a refusal on that ground is
// for the waiters of that plugin, the rest goes on waiting as long as it may.
func (f *flights) settle(fl *flight, plugin string, out outcome) {
	if out.answer == contract.Unavailable {
		mono := f.cache.clock.Now().Mono
		f.mu.Lock()
		all := slices.Concat(fl.serving, fl.waiting)
		fl.serving, fl.waiting = nil, nil
		for _, w := range all {
			if out.pluginOnly && w.plugin != plugin && w.deadline > mono {
				fl.waiting = append(fl.waiting, w)
			} else {
				fl.serving = append(fl.serving, w)
			}
		}
		f.mu.Unlock()
	}
	for len(fl.serving) > 0 {
		f.answerNext(fl, out)
	}
}

// answerNext takes the first waiter out before it is called, so that a panic
// cannot make it be called twice.
func (f *flights) answerNext(fl *flight, out outcome) {
	w := fl.serving[0]
	fl.serving = fl.serving[1:]
	f.mu.Lock()
	f.waiters.give(w.from)
	f.mu.Unlock()
	f.cache.opts.Recover("lookup callback", func() { w.done(out.answer, out.packed) })
}

// abandon answers what a flight left behind. It finds something only after a
// panic.
func (f *flights) abandon(hash contract.Hash, fl *flight) {
	f.endTurn(fl)
	f.mu.Lock()
	if f.byHash[hash] == fl {
		delete(f.byHash, hash)
	}
	fl.serving = append(fl.serving, fl.waiting...)
	fl.waiting = nil
	f.mu.Unlock()
	for len(fl.serving) > 0 {
		f.answerNext(fl, outcome{answer: contract.Unavailable})
	}
}
