package tokencache

import (
	"sync"
	"time"
)

const (
	// breakerFailures in a row open the breaker.
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
	probing  bool
	retry    time.Duration // monotonic time of the next probe
}

// allow says whether Redis may be asked; who may must report the outcome.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerFailures {
		return true
	}
	if b.probing || b.clock.Mono() < b.retry {
		return false
	}
	b.probing = true
	return true
}

// report tells the outcome; changed says that the breaker opened or closed.
func (b *breaker) report(ok bool) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.failures >= breakerFailures
	if ok {
		b.failures, b.probing = 0, false
		return was
	}
	b.failures = min(b.failures+1, breakerFailures)
	b.probing = false
	b.retry = b.clock.Mono() + breakerProbe
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
