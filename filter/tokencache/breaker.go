package tokencache

import (
	"sync"
	"time"
)

const (
	// breakerFailures is the number of consecutive failures that open the breaker. Reads
	// that overlap with a failed one do not count as further failures: the same cause may
	// have delayed all of them, for example an overloaded machine.
	breakerFailures = 3
	// breakerProbe is the pause between two probes of an open breaker.
	breakerProbe = 500 * time.Millisecond
)

// breaker keeps requests from waiting for a Redis that does not answer. While it is open,
// one request per breakerProbe may try. All others go on without Redis at once, or wait for
// what that one finds if nothing else can answer them.
type breaker struct {
	clock Clock

	mu       sync.Mutex
	failures int
	failed   time.Duration // monotonic time of the latest failure that counts
	probe    chan struct{} // closed when the probe that is under way ends; nil without one
	retry    time.Duration // monotonic time of the next probe
}

// permit is the leave to ask Redis once.
type permit struct {
	began time.Duration // monotonic
	// probe is closed when the probe that this is ends; nil if it is none.
	probe chan struct{}
}

// allow says whether Redis may be asked. If so, the caller must call report or cancel with
// the permit.
func (b *breaker) allow() (p permit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.began = b.clock.Now().Mono
	if b.failures < breakerFailures {
		return p, true
	}
	if b.probe != nil || p.began < b.retry {
		return p, false
	}
	b.probe = make(chan struct{})
	p.probe = b.probe
	return p, true
}

// allowAfterProbe is allow for a look-up that nothing but Redis can answer. Without it, the
// first look-ups together would be refused but for the one that finds Redis well again.
// wait waits for the end of a probe; it returns false if the look-up may not go on.
func (b *breaker) allowAfterProbe(wait func(<-chan struct{}) bool) (p permit, ok bool) {
	for {
		if p, ok = b.allow(); ok {
			return p, true
		}
		probe := b.underWay()
		if probe == nil {
			return b.allow()
		}
		if !wait(probe) {
			return p, false
		}
	}
}

// underWay returns what is closed when the probe that is under way ends; nil without one.
func (b *breaker) underWay() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.probe
}

// endProbe lets others make a probe. The caller holds mu.
func (b *breaker) endProbe() {
	if b.probe != nil {
		close(b.probe)
		b.probe = nil
	}
}

// report records the outcome. changed says that the breaker opened or closed.
func (b *breaker) report(p permit, ok bool) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.failures >= breakerFailures
	if ok {
		b.failures = 0
		b.endProbe()
		return was
	}
	if p.began < b.failed || !b.mayEnd(p) {
		return false
	}
	b.failures = min(b.failures+1, breakerFailures)
	b.endProbe()
	b.failed = b.clock.Now().Mono
	b.retry = b.failed + breakerProbe
	return !was && b.failures >= breakerFailures
}

// cancel withdraws a permit whose outcome says nothing about Redis. The probe of another one
// goes on.
func (b *breaker) cancel(p permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mayEnd(p) {
		b.endProbe()
	}
}

// release lets nobody wait for a probe any more. Its outcome counts nowhere.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endProbe()
}

// mayEnd says whether no probe but that of a permit is under way. A look-up may have been
// allowed before the breaker opened, and end during the probe of another one. The caller
// holds mu.
func (b *breaker) mayEnd(p permit) bool { return b.probe == nil || b.probe == p.probe }

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= breakerFailures
}
