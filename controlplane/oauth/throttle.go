package oauth

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"
)

// Limits bounds failed attempts with client secrets and provision keys.
type Limits struct {
	// Client is the number of failures per minute for one client or one provision key; 0
	// means 100. All unknown addresses share this limit. An address from which the right
	// secret came recently has a limit of its own.
	Client int
	// Address is the number of failures per minute from one address, or from one IPv6 network
	// of 64 bits, whichever clients they name. 0 counts nothing, because many clients may
	// share an address; but in the strict profile 0 means twenty failures, and one more each
	// second.
	Address int
}

// The defaults of Limits.
const (
	defaultClient = 100
	addressCredit = 20
	addressPeriod = time.Second
)

const (
	// knownLife is how long an address stays known for a client.
	knownLife = 7 * 24 * time.Hour
	// maxTracked bounds the entries of a generation; there are two generations.
	maxTracked = 8192
)

// throttle slows down guessing. It counts only failures. By the requests alone, guessing
// cannot be distinguished from strangers who send wrong secrets to lock out the owner of the
// right one. So addresses decide: an address from which the right secret came is counted
// separately, whatever others do. Memory is bounded: when a generation is full, the one
// before it is forgotten. Strangers with many addresses could fill up the memory without
// naming a client, so failures of addresses and guesses at secrets are kept apart. Source:
// RFC 6749 section 2.3.1, "MUST protect against brute force attacks".
type throttle struct {
	limits Limits
	now    func() time.Time
	mu     sync.Mutex
	// addresses and guesses hold the time at which a bucket will be full again, known the
	// time at which an address is no longer known.
	addresses, guesses, known generations
}

func newThrottle(l Limits, now func() time.Time) *throttle {
	if l.Client == 0 {
		l.Client = defaultClient
	}
	return &throttle{limits: l, now: now}
}

// bucket is a limit that an attempt counts against.
type bucket struct {
	in     *generations
	key    digest
	credit time.Duration
	period time.Duration
}

// perMinute is a bucket of n failures that refills within a minute.
func perMinute(in *generations, key string, n int) bucket {
	return bucket{in, digestOf(key), time.Minute, time.Minute / time.Duration(n)}
}

// attempt is an attempt to prove something from an address.
type attempt struct {
	buckets []bucket
	// known is the key under which a success is remembered; zero for none.
	known digest
}

// attempt prepares an attempt. subject names what could be guessed; it is empty if there is
// nothing to guess and only the address counts. strict tells the profile of the plugin. If
// the subject is known at the address, the address is not counted. Otherwise strangers behind
// the same address could use up its limit, and lock out the owner of the right secret.
func (l *throttle) attempt(subject, address string, strict bool) (a attempt) {
	from := network(address)
	if subject != "" && from != "" {
		a.known = digestOf("known " + from + " " + subject)
		if l.knows(a.known) {
			a.buckets = append(a.buckets, perMinute(&l.guesses, "guess at "+from+" "+subject, l.limits.Client))
			return a
		}
	}
	switch {
	case from == "":
	case l.limits.Address > 0:
		a.buckets = append(a.buckets, perMinute(&l.addresses, "address "+from, l.limits.Address))
	case strict:
		a.buckets = append(a.buckets, bucket{&l.addresses, digestOf("address " + from), addressCredit * addressPeriod, addressPeriod})
	}
	if subject != "" {
		a.buckets = append(a.buckets, perMinute(&l.guesses, "guess "+subject, l.limits.Client))
	}
	return a
}

// knows reports whether a subject was proved at an address recently.
func (l *throttle) knows(pair digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.known.get(pair)
	return ok && l.now().Before(until)
}

// network returns the part of an address that one client may hold completely: an IPv4
// address, or an IPv6 network of 64 bits.
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

// wait returns how long to wait before the attempt; 0 if it may be made now.
func (l *throttle) wait(a attempt) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest(a, l.now())
}

func (l *throttle) longest(a attempt, now time.Time) (longest time.Duration) {
	for _, b := range a.buckets {
		if until, ok := b.in.get(b.key); ok {
			longest = max(longest, until.Sub(now)-b.credit+b.period)
		}
	}
	return longest
}

// settle counts a failure, or remembers a success. If others have used up the limit
// meanwhile, it returns how long to wait. The caller must not reveal the outcome then: that
// would answer one guess too many.
func (l *throttle) settle(a attempt, succeeded bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if wait := l.longest(a, now); wait > 0 {
		return wait
	}
	if succeeded {
		if a.known != (digest{}) {
			l.known.set(a.known, now.Add(knownLife))
		}
		return 0
	}
	for _, b := range a.buckets {
		until, _ := b.in.get(b.key)
		if until.Before(now) {
			until = now
		}
		b.in.set(b.key, until.Add(b.period))
	}
	return 0
}

// digest is a key of a generation. Its size is fixed, so that requests cannot choose it.
type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

// generations is a map of bounded size. It forgets roughly the entries that were neither set
// nor read for the longest time.
type generations struct{ young, old map[digest]time.Time }

func (g *generations) get(k digest) (time.Time, bool) {
	if t, ok := g.young[k]; ok {
		return t, true
	}
	t, ok := g.old[k]
	if ok {
		g.set(k, t)
	}
	return t, ok
}

func (g *generations) set(k digest, t time.Time) {
	if _, present := g.young[k]; !present && len(g.young) >= maxTracked {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[digest]time.Time)
	}
	g.young[k] = t
}

func (g *generations) len() int { return len(g.young) + len(g.old) }
