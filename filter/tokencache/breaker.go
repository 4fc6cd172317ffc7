package tokencache

import (
	"context"
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

// allow says whether Redis may be asked. If so, the caller must call report or cancel, and
// report needs the returned start time.
func (b *breaker) allow() (began time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began = b.clock.Now().Mono
	if b.failures < breakerFailures {
		return began, true
	}
	if b.probe != nil || began < b.retry {
		return began, false
	}
	b.probe = make(chan struct{})
	return began, true
}

// allowAfterProbe is allow for a look-up that nothing but Redis can answer. Without it, the
// first look-ups together would be refused but for the one that finds Redis well again.
func (b *breaker) allowAfterProbe(ctx context.Context) (began time.Duration, ok bool) {
	for {
		if began, ok = b.allow(); ok {
			return began, true
		}
		probe := b.underWay()
		if probe == nil {
			return b.allow()
		}
		select {
		case <-probe:
		case <-ctx.Done():
			return 0, false
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
func (b *breaker) report(began time.Duration, ok bool) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.failures >= breakerFailures
	if ok {
		b.failures = 0
		b.endProbe()
		return was
	}
	if began < b.failed {
		return false
	}
	b.failures = min(b.failures+1, breakerFailures)
	b.endProbe()
	b.failed = b.clock.Now().Mono
	b.retry = b.failed + breakerProbe
	return !was && b.failures >= breakerFailures
}

// cancel withdraws an allow whose outcome says nothing about Redis.
func (b *breaker) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endProbe()
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= breakerFailures
}
