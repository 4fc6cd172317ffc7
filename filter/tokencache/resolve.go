package tokencache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// maxFlights bounds the tokens that wait to be looked up, and maxWaiters the requests
	// that wait for them. Beyond these bounds requests are refused; turns and share decide
	// which ones.
	maxFlights = 1024
	maxWaiters = 16 << 10
	// waitTimeout bounds the wait of one request.
	waitTimeout = 2 * time.Second
	// roundTimeout bounds one look-up. It is enough for two reads of Redis and an
	// introspection. A request that arrives just after a round began waits for two rounds.
	roundTimeout = 950 * time.Millisecond
)

// Done receives the answer of a [Cache.Resolve]. The packed record is set for
// contract.Found, and for contract.Expired if it is still known. It stays valid, and must
// not be changed because all waiters of a token share it. Done must not block.
type Done func(answer contract.Answer, packed []byte)

// waiter is one request that waits for a token.
type waiter struct {
	cache    *Cache
	flight   *flight
	from     Asker
	plugin   string
	deadline time.Duration // monotonic
	done     Done
}

// flight is the series of look-ups of one token.
type flight struct {
	// from is the first source that asked. turn is set while a round waits for its turn or
	// has it.
	from Asker
	turn *turn
	// waiting are the waiters that arrived after the current round began. Its reads may be
	// older than they are, so it does not answer them. The next round does, usually from
	// what this one left in L1.
	waiting []*waiter
	// serving are the waiters of the current round.
	serving []*waiter
}

// flights are all look-ups in progress.
type flights struct {
	cache *Cache

	mu    sync.Mutex
	turns turns
	// rests are the look-ups that wait for a Welcome, or for the probe of a Redis, and do not
	// hold a turn meanwhile.
	rests   turns
	byHash  map[contract.Hash]*flight
	waiters share
	closed  bool
}

// Resolve asks L2 and the control plane about a token that L1 could not answer for, on
// behalf of the plugin instance that needs it. It never blocks. done is called exactly once,
// within two seconds, and never with Miss. It usually runs on a goroutine of the cache, but
// runs before Resolve returns if the request is refused at once (too many waiting, or the
// cache is closed).
func (c *Cache) Resolve(hash contract.Hash, plugin string, done func(contract.Answer, []byte)) {
	c.ResolveFor(Asker{}, hash, plugin, done)
}

// ResolveFor is Resolve on behalf of a source. Look-ups of different sources take turns, so
// that random tokens of one source do not starve the others. giveUp says that nobody wants
// the answer any more: a look-up that still waits for its turn leaves its queue. giveUp does
// not block, and may be called at any time except from inside a Done. Before it returns, it
// calls done with Unavailable, unless done has been called or is about to be called with
// another answer.
func (c *Cache) ResolveFor(from Asker, hash contract.Hash, plugin string, done func(contract.Answer, []byte)) (giveUp func()) {
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
			fl.from = from // the first asker has gone
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
	// Start inside the lock, so that close, which takes the lock, sees the goroutine
	// counted.
	c.start("lookup", func() { f.fly(hash, fl) })
	f.mu.Unlock()
	return w.giveUp
}

// giveUp ends the wait of one request. A look-up that nobody waits for any more leaves its
// queue. If it already has its turn, it goes on, and its result is remembered.
func (w *waiter) giveUp() {
	f, fl := &w.cache.flights, w.flight
	f.mu.Lock()
	i := slices.Index(fl.waiting, w)
	if i < 0 { // it is being served, or has been answered
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

// hasten moves a look-up that waits for its turn to the queue of another source that asks
// for the same token, if that queue is shorter. The caller holds mu.
func (f *flights) hasten(fl *flight, from Asker) {
	if fl.turn == nil || !fl.turn.waits() || !f.turns.shorter(from, fl.from) {
		return
	}
	f.turns.leave(fl.from, fl.turn)
	fl.from = from
	f.turns.enqueue(from, fl.turn)
	f.turns.grant()
}

// close refuses new waiters. The waiting ones are answered by their flights.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// fly runs rounds until nobody waits. Every waiter is answered, even after a panic.
func (f *flights) fly(hash contract.Hash, fl *flight) {
	defer f.abandon(hash, fl)
	for f.queue(hash, fl) {
		switch f.begin(fl) {
		case turnAbandoned: // another waiter may have come since
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
		out := f.cache.lookUp(ctx, hash, first.plugin, &round{f, fl, cancel})
		cancel()
		f.endTurn(fl)
		f.settle(fl, first.plugin, out)
	}
}

// queue asks for a turn for the waiters, unless [Cache.ResolveFor] has done so. Without
// waiters it ends the flight and returns false.
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

// beginning is the result of waiting for a turn.
type beginning uint8

const (
	turnGranted beginning = iota
	// turnRefused: the queue is too long or the time is over.
	turnRefused
	// turnAbandoned: nobody waited any more.
	turnAbandoned
)

// begin waits for the turn. The waiters of that moment become the ones that are served.
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

// endTurn gives the turn to the next look-up.
func (f *flights) endTurn(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.turn != nil {
		f.turns.end(fl.from, fl.turn)
		fl.turn = nil
	}
}

// settle answers the waiters of a round. Unavailable also goes to those that came during the
// round: it says nothing about the token, and another try could make them wait too long.
// There is an exception: a control plane that may not speak about one plugin may speak about
// another. Such a refusal is only for the waiters of that plugin, and the others go on
// waiting as long as they may.
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

// answerNext removes the first waiter before it calls it, so that a panic cannot make it be
// called twice.
func (f *flights) answerNext(fl *flight, out outcome) {
	w := fl.serving[0]
	fl.serving = fl.serving[1:]
	f.mu.Lock()
	f.waiters.give(w.from)
	f.mu.Unlock()
	f.cache.opts.Recover("lookup callback", func() { w.done(out.answer, out.packed) })
}

// abandon answers the waiters that a flight left behind, which happens only after a panic.
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
