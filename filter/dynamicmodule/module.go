package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// tokens is what a filter needs of a token cache; *tokencache.Cache has it.
type tokens interface {
	engine.Tokens
	// ResolveFor asks the deeper levels on behalf of a source. It never blocks, and calls done exactly
	// once, from a goroutine or while it is given up; packed is valid during that call.
	ResolveFor(from tokencache.Source, hash contract.Hash, plugin string, done func(answer contract.Answer, packed []byte)) (giveUp func())
	Close()
}

// source is one token cache, shared by all listener configurations with the same
// settings: while a listener drains, its old and its new configuration coexist,
// and two caches would hold two leases.
type source struct {
	tokens *lateCache
	key    string
	refs   int // guarded by module.mu
}

var errForeignSettings = errors.New("inline settings where " + contract.SettingsEnv + " names a file")

// module is the state of the library in this process. Envoy loads a library
// once and never unloads it, so there is exactly one, [library].
type module struct {
	log *slog.Logger
	// open makes the token cache for settings, or for a settings file if
	// settings is nil.
	open func(m *module, settings *contract.Settings, file string) (tokens, error)

	// chained is set once there is a chain. The filter is part of every inbound of
	// every sidecar; where no route checks tokens it keeps no link to the control
	// plane, which revocations would have to wait for.
	chained atomic.Bool

	sources  table[source]
	programs table[engine.Ref]
	pendings table[pending]
	interner *engine.Interner

	mu         sync.Mutex
	sourceOf   map[string]uint32
	background sync.WaitGroup
}

func newModule(log *slog.Logger, open func(*module, *contract.Settings, string) (tokens, error)) *module {
	return &module{
		log:      log,
		open:     open,
		interner: engine.NewInterner(),
		sourceOf: map[string]uint32{},
	}
}

// recovered ends a panic of an entry into Go or of a goroutine. It must be
// deferred directly. What the entry was to yield keeps its zero value, which
// refuses.
func (m *module) recovered(where string) {
	if p := recover(); p != nil {
		m.log.Error("panic recovered", "where", where, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// spawn runs work in a goroutine that the module owns.
func (m *module) spawn(where string, work func()) {
	m.background.Add(1)
	go func() {
		defer m.background.Done()
		defer m.recovered(where)
		work()
	}()
}

// acquireSource parses a listener's configuration and returns the handle of its
// token cache. An error means that the configuration does not parse; an
// authority that is away is none.
func (m *module) acquireSource(data []byte) (uint32, *contract.FilterConfig, error) {
	config, err := contract.ParseFilterConfig(data)
	if err != nil {
		return 0, nil, err
	}
	key, file, err := identify(config.Settings)
	if err != nil {
		return 0, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.sourceOf[key]; ok {
		m.sources.get(h).refs++
		return h, config, nil
	}
	cache := newLateCache(m, func() (tokens, error) { return m.open(m, config.Settings, file) })
	h, err := m.sources.put(&source{tokens: cache, key: key, refs: 1})
	if err != nil {
		m.spawn("close token cache", cache.Close)
		return 0, nil, err
	}
	m.sourceOf[key] = h
	return h, config, nil
}

// identify tells settings apart: by their content if they are inline, by the
// path of their file otherwise. Where there is a file, inline ones are refused: they name
// files and whom to send them to, and may come from elsewhere than this machine.
func identify(settings *contract.Settings) (key, file string, err error) {
	file = os.Getenv(contract.SettingsEnv)
	if settings == nil {
		return "file:" + file, file, nil
	}
	if file != "" {
		return "", "", errForeignSettings
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return "", "", fmt.Errorf("encode settings: %w", err)
	}
	// They came inside another document, which checks only their shape.
	if _, err := contract.ParseSettings(data); err != nil {
		return "", "", err
	}
	return "inline:" + string(data), "", nil
}

// releaseSource gives up one use of a token cache; the last one closes it.
// Closing may take time, and this runs on Envoy's main thread.
func (m *module) releaseSource(h uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sources.get(h)
	if s == nil {
		return
	}
	if s.refs--; s.refs > 0 {
		return
	}
	delete(m.sourceOf, s.key)
	m.sources.drop(h)
	m.spawn("close token cache", s.tokens.Close)
}

// acquireProgram returns a handle for the program of a chain, and the program. A
// chain that cannot be used yields a program that refuses.
func (m *module) acquireProgram(data []byte) (uint32, *engine.Program, error) {
	if m.chained.CompareAndSwap(false, true) {
		m.begin()
	}
	ref := m.interner.Acquire(data)
	if fault := ref.Program().Fault(); fault != "" {
		m.log.Error("chain of a route is unusable, its requests are refused", "error", fault)
	}
	h, err := m.programs.put(ref)
	if err != nil {
		ref.Release()
		return 0, nil, err
	}
	return h, ref.Program(), nil
}

// begin opens the token caches of the listeners that are there already.
func (m *module) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.sourceOf {
		m.sources.get(h).tokens.begin()
	}
}

// releaseProgram gives a program up. It runs on any thread, workers among them,
// for whole route tables at once.
func (m *module) releaseProgram(h uint32) {
	if ref := m.programs.drop(h); ref != nil {
		ref.Release()
	}
}
