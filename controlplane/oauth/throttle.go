package oauth

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"
)

// Limits of failed client authentications. A client_id may be tried by strangers
// in order to lock its owner out, so it has ten times the credit of an address.
const (
	addressCredit = 20
	clientCredit  = 200
	// addressPeriod and clientPeriod are how long it takes to win back one.
	addressPeriod = time.Second
	clientPeriod  = time.Second / 10
	// maxTracked bounds a generation of what is remembered; there are two.
	maxTracked = 8192
)

// throttle slows guessing of client secrets down. It counts failures only, for
// addresses and for client ids, each in its bucket. Memory is bounded: when a
// generation is full, the one before it is forgotten.
// Source: RFC 6749 section 2.3.1, "MUST protect against brute force attacks".
type throttle struct {
	now func() time.Time
	mu  sync.Mutex
	// Each entry is the moment at which its bucket will be full again.
	young, old map[[sha256.Size]byte]time.Time
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, young: map[[sha256.Size]byte]time.Time{}, old: map[[sha256.Size]byte]time.Time{}}
}

// bucket is one of the two that a request counts against.
type bucket struct {
	key    [sha256.Size]byte
	credit time.Duration
	period time.Duration
}

// buckets are keyed by digests, so that no request decides how long a key is.
func buckets(address, scope, client string) []bucket {
	var out []bucket
	if key := network(address); key != "" {
		out = append(out, bucket{sha256.Sum256([]byte("address " + key)), addressCredit * addressPeriod, addressPeriod})
	}
	if client != "" {
		out = append(out, bucket{sha256.Sum256([]byte("client " + scope + " " + client)), clientCredit * clientPeriod, clientPeriod})
	}
	return out
}

// network is what one client can hold many addresses of: an IPv6 network of 64
// bits.
func network(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// wait returns how long to wait before the next attempt; 0 for not at all.
func (l *throttle) wait(address, scope, client string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, longest := l.now(), time.Duration(0)
	for _, b := range buckets(address, scope, client) {
		if until, ok := l.get(b.key); ok {
			longest = max(longest, until.Sub(now)-b.credit+b.period)
		}
	}
	return longest
}

// failed counts a failure.
func (l *throttle) failed(address, scope, client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, b := range buckets(address, scope, client) {
		until, _ := l.get(b.key)
		if until.Before(now) {
			until = now
		}
		if len(l.young) >= maxTracked {
			l.old, l.young = l.young, map[[sha256.Size]byte]time.Time{}
		}
		l.young[b.key] = until.Add(b.period)
	}
}

func (l *throttle) get(key [sha256.Size]byte) (time.Time, bool) {
	if t, ok := l.young[key]; ok {
		return t, true
	}
	t, ok := l.old[key]
	return t, ok
}
