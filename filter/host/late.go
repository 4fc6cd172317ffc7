package host

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// reopenEvery is the shortest pause between two attempts to open a token cache.
const reopenEvery = time.Second

var (
	errOpenPanicked = errors.New("opening panicked")
	errNoSettings   = errors.New("no settings: neither inline nor a file in " + contract.SettingsEnv)
)

// lateCache is a token cache that may not be open yet, because no route has a chain so far,
// or the settings file is missing or unusable. Until it is open, it answers Unavailable, and
// each look-up may cause another attempt. A file that arrives late is therefore read without
// a change of Envoy's configuration.
type lateCache struct {
	host  *Host
	open  func() (Tokens, error)
	cache atomic.Pointer[Tokens]

	mu     sync.Mutex // guards the fields below; not held while opening
	next   time.Time
	trying bool
	closed bool
}

func newLateCache(h *Host, open func() (Tokens, error)) *lateCache {
	l := &lateCache{host: h, open: open}
	if h.chained.Load() {
		l.begin()
	}
	return l
}

// begin opens the cache unless this has been tried.
func (l *lateCache) begin() {
	l.mu.Lock()
	first := !l.trying && !l.closed && l.next.IsZero()
	l.trying = l.trying || first
	l.mu.Unlock()
	if first {
		l.try()
	}
}

// try opens the cache. The caller has set trying.
func (l *lateCache) try() {
	var cache Tokens
	err := errOpenPanicked
	defer func() {
		if err != nil {
			l.host.log.Error("token cache cannot be opened, requests are refused", "error", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.trying, l.next = false, time.Now().Add(reopenEvery)
		switch {
		case err != nil:
		case l.closed:
			l.host.Spawn("close token cache", cache.Close)
		default:
			l.cache.Store(&cache)
		}
	}()
	defer l.host.Recovered("open token cache")
	cache, err = l.open()
}

// Lookup asks the first level.
func (l *lateCache) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if c := l.cache.Load(); c != nil {
		return (*c).Lookup(hash, dst)
	}
	return 0, contract.Miss
}

// provable is what a cache can do that proves what it finds. [tokencache.Cache] implements it.
type provable interface {
	Prove(hash contract.Hash) (tokencache.Proof, bool)
	// Peek is Lookup, and counts nothing.
	Peek(hash contract.Hash, dst []byte) (int, contract.Answer)
}

// peeked is a cache that is asked without being counted.
type peeked lateCache

// Lookup implements [engine.Tokens].
func (l *peeked) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if c, ok := (*lateCache)(l).provable(); ok {
		return c.Peek(hash, dst)
	}
	return 0, contract.Miss
}

// provable returns the cache if it is open and can prove.
func (l *lateCache) provable() (provable, bool) {
	c := l.cache.Load()
	if c == nil {
		return nil, false
	}
	p, ok := (*c).(provable)
	return p, ok
}

// ResolveFor asks the deeper levels.
func (l *lateCache) ResolveFor(from tokencache.Asker, hash contract.Hash, plugin string, done func(contract.Answer, []byte)) (giveUp func()) {
	if c := l.cache.Load(); c != nil {
		return (*c).ResolveFor(from, hash, plugin, done)
	}
	l.mu.Lock()
	attempt := !l.trying && !l.closed && !time.Now().Before(l.next)
	l.trying = l.trying || attempt
	l.mu.Unlock()
	if !attempt {
		done(contract.Unavailable, nil)
		return func() {}
	}
	l.host.Spawn("open token cache", func() {
		l.try()
		if c := l.cache.Load(); c != nil {
			(*c).ResolveFor(from, hash, plugin, done)
			return
		}
		done(contract.Unavailable, nil)
	})
	return func() {}
}

// Close closes the cache if it is open. A cache that is being opened is closed as soon as
// it is open.
func (l *lateCache) Close() {
	l.mu.Lock()
	l.closed = true
	c := l.cache.Load()
	l.mu.Unlock()
	if c != nil {
		(*c).Close()
	}
}

// OpenCache is the [Opener] of the real token cache.
func (h *Host) OpenCache(settings *contract.Settings, file string) (Tokens, error) {
	return h.OpenNamed("", settings, file)
}

// OpenNamed is OpenCache for a cache of a process that an agent has named; see
// [contract.ProcessEnv].
func (h *Host) OpenNamed(process string, settings *contract.Settings, file string) (Tokens, error) {
	if settings == nil && file == "" {
		return nil, errNoSettings
	}
	return tokencache.Open(tokencache.Options{
		Path: file, Settings: settings, Process: process, Logger: h.log,
		Recover: func(name string, fn func()) {
			defer h.Recovered(name)
			fn()
		},
	})
}
