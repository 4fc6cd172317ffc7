package main

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

// lateCache is a token cache that may not have been opened yet: because no route
// checks tokens so far, or because its settings file is missing or unusable. Until
// it is, it answers Unavailable and every look-up may cause another attempt: a
// file that arrives late is taken without a change of Envoy's configuration.
type lateCache struct {
	module *module
	open   func() (tokens, error)
	cache  atomic.Pointer[tokens]

	mu     sync.Mutex // guards what follows; not held while opening
	next   time.Time
	trying bool
	closed bool
}

func newLateCache(m *module, open func() (tokens, error)) *lateCache {
	l := &lateCache{module: m, open: open}
	if m.chained.Load() {
		l.begin()
	}
	return l
}

// begin opens the cache unless that has been tried.
func (l *lateCache) begin() {
	l.mu.Lock()
	first := !l.trying && !l.closed && l.next.IsZero()
	l.trying = l.trying || first
	l.mu.Unlock()
	if first {
		l.try()
	}
}

// try opens the cache; trying is set by the caller.
func (l *lateCache) try() {
	var cache tokens
	err := errOpenPanicked
	defer func() {
		if err != nil {
			l.module.log.Error("token cache cannot be opened, requests are refused", "error", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.trying, l.next = false, time.Now().Add(reopenEvery)
		switch {
		case err != nil:
		case l.closed:
			l.module.spawn("close token cache", cache.Close)
		default:
			l.cache.Store(&cache)
		}
	}()
	defer l.module.recovered("open token cache")
	cache, err = l.open()
}

// Lookup asks the first level.
func (l *lateCache) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if c := l.cache.Load(); c != nil {
		return (*c).Lookup(hash, dst)
	}
	return 0, contract.Miss
}

// ResolveFor asks the deeper levels.
func (l *lateCache) ResolveFor(from tokencache.Source, hash contract.Hash, plugin string, done func(contract.Answer, []byte)) (giveUp func()) {
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
	l.module.spawn("open token cache", func() {
		l.try()
		if c := l.cache.Load(); c != nil {
			(*c).ResolveFor(from, hash, plugin, done)
			return
		}
		done(contract.Unavailable, nil)
	})
	return func() {}
}

// hasten has an open cache link soon, if it is not linked.
func (l *lateCache) hasten() {
	c := l.cache.Load()
	if c == nil {
		return
	}
	if linking, ok := (*c).(interface{ Hasten() }); ok {
		linking.Hasten()
	}
}

// hasten has every token cache link soon. It runs on a worker, which waits for nobody:
// while configurations change none is told.
func (m *module) hasten() {
	if !m.mu.TryLock() {
		return
	}
	defer m.mu.Unlock()
	for _, h := range m.sourceOf {
		m.sources.get(h).tokens.hasten()
	}
}

// Close closes the cache if there is one, and keeps a later one from staying.
func (l *lateCache) Close() {
	l.mu.Lock()
	l.closed = true
	c := l.cache.Load()
	l.mu.Unlock()
	if c != nil {
		(*c).Close()
	}
}

// openCache opens the real token cache.
func (m *module) openCache(settings *contract.Settings, file string) (tokens, error) {
	if settings == nil && file == "" {
		return nil, errNoSettings
	}
	return tokencache.Open(tokencache.Options{
		Path: file, Settings: settings, Logger: m.log,
		Recover: func(name string, fn func()) {
			defer m.recovered(name)
			fn()
		},
	})
}
