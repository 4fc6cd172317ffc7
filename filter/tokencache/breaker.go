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
// one request per breakerProbe may try. All others go on without Redis at
// once.
type breaker struct {
	clock Clock

	mu       sync.Mutex
	failures int
	failed   time.Duration // monotonic time of the latest failure that counts
	probing  bool
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
	if b.probing || began < b.retry {
		return began, false
	}
	b.probing = true
	return began, true
}

// report records the outcome. changed says that the breaker opened or closed.
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

// cancel withdraws an allow whose outcome says nothing about Redis.
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
