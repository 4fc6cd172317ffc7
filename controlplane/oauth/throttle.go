package oauth

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"
)

// Limits bounds failed attempts to prove something: client secrets and
// provision keys.
type Limits struct {
	// Client is how many failures a minute there may be for one client or one
	// provision key; 0 means 100. It holds for all unknown addresses together,
	// and for each address alone from which the right secret came not long ago.
	Client int
	// Address is how many failures a minute may come from one address, or from
	// one IPv6 network of 64 bits, whoever they name. 0 means that many clients
	// may sit behind one address, and nothing is counted; but in the strict
	// profile there may be twenty, and one more each second.
	Address int
}

// What Limits stand for by default.
const (
	defaultClient = 100
	addressCredit = 20
	addressPeriod = time.Second
)

const (
	// knownLife is how long an address stays known for a client.
	knownLife = 7 * 24 * time.Hour
	// maxTracked bounds a generation of what is remembered; there are two.
	maxTracked = 8192
)

// throttle slows guessing down. It counts failures only. That a stranger who
// sends wrong secrets keeps the owner of the right one away cannot be told from
// guessing by the requests alone, so addresses decide: where the right secret
// came from is counted by itself, whatever others do. Memory is bounded: when a
// generation is full, the one before it is forgotten. Strangers have many
// addresses and name nobody, so these are remembered apart from what they guess.
// Source: RFC 6749 section 2.3.1, "MUST protect against brute force attacks".
type throttle struct {
	limits Limits
	now    func() time.Time
	mu     sync.Mutex
	// addresses and guesses hold the moment at which a bucket will be full again,
	// known the moment at which an address is no longer known.
	addresses, guesses, known generations
}

func newThrottle(l Limits, now func() time.Time) *throttle {
	if l.Client == 0 {
		l.Client = defaultClient
	}
	return &throttle{limits: l, now: now}
}

// bucket is one of those that an attempt counts against.
type bucket struct {
	in     *generations
	key    digest
	credit time.Duration
	period time.Duration
}

// perMinute is a bucket of n failures that is won back within a minute.
func perMinute(in *generations, key string, n int) bucket {
	return bucket{in, digestOf(key), time.Minute, time.Minute / time.Duration(n)}
}

// attempt is an attempt to prove something from somewhere.
type attempt struct {
	buckets []bucket
	// known is what is remembered of a success; zero for nothing.
	known digest
}

// attempt prepares one. subject names what could be guessed; it is empty where
// there is nothing to guess and only the address counts. strict says which
// profile the plugin has. Where the subject is known at the address, the address is
// not counted: strangers behind the same one would use its count up, and keep out
// whoever has the right secret.
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

// knows reports whether a subject was proved at an address not long ago.
func (l *throttle) knows(pair digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.known.get(pair)
	return ok && l.now().Before(until)
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

// wait returns how long to wait before the attempt; 0 for not at all.
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

// settle counts a failure, or remembers a success. Where others have used the
// limit up meanwhile it returns how long to wait, and the outcome must not be
// told: it would be an answer to a guess too many.
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

// digest is a key of what is remembered, so that no request decides how long
// one is.
type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

// generations is a map of bounded size that forgets what was neither set nor
// got for longest, roughly.
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
