package tokencache

import (
	"sync"
	"time"
)

const (
	// breakerFailures in a row open the breaker. What fails together is one
	// failure: reads that were under way when another one failed were kept waiting
	// by the same thing, which may be this machine having too much to do.
	breakerFailures = 3
	// breakerProbe is the pause between two probes of an open breaker.
	breakerProbe = 500 * time.Millisecond
)

// breaker keeps requests from waiting for a Redis that does not answer. While
// it is open one request per breakerProbe may try; all others go on at once.
type breaker struct {
	clock Clock

	mu       sync.Mutex
	failures int
	failed   time.Duration // monotonic time of the latest that counts
	probing  bool
	retry    time.Duration // monotonic time of the next probe
}

// allow says whether Redis may be asked; who may must report the outcome, with
// the time at which it began.
func (b *breaker) allow() (began time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began = b.clock.Now().Mono
	if b.failures < breakerFailures {
		return began, true
	}
	if b.probing || began < b.retry {
		return began, false
	}
	b.probing = true
	return began, true
}

// report tells the outcome; changed says that the breaker opened or closed.
func (b *breaker) report(began time.Duration, ok bool) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.failures >= breakerFailures
	if ok {
		b.failures, b.probing = 0, false
		return was
	}
	if began < b.failed {
		return false
	}
	b.failures = min(b.failures+1, breakerFailures)
	b.probing = false
	b.failed = b.clock.Now().Mono
	b.retry = b.failed + breakerProbe
	return !was && b.failures >= breakerFailures
}

// cancel takes back an allow whose outcome says nothing about Redis.
func (b *breaker) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= breakerFailures
}
