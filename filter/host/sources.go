package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// Tokens is what a host needs of a token cache. [tokencache.Cache] implements it.
type Tokens interface {
	engine.Tokens
	// ResolveFor asks the deeper levels on behalf of a client. It never blocks. It calls
	// done exactly once, from a goroutine or while the look-up is given up. packed is
	// valid during that call.
	ResolveFor(from tokencache.Asker, hash contract.Hash, plugin string, done func(answer contract.Answer, packed []byte)) (giveUp func())
	Close()
}

// source is one token cache. All listener configurations with the same settings share it.
// While a listener drains, its old and its new configuration coexist, and two caches would
// hold two leases.
type source struct {
	tokens *lateCache
	key    string
	refs   int // guarded by Host.mu
}

var errForeignSettings = errors.New("inline settings where " + contract.SettingsEnv + " names a file")

// AcquireSource parses a listener's configuration and returns the handle of its token cache,
// and the configuration. It fails if the configuration does not parse, but not while the
// control plane is away.
func (h *Host) AcquireSource(data []byte) (uint32, *contract.FilterConfig, error) {
	config, err := contract.ParseFilterConfig(data)
	if err != nil {
		return 0, nil, err
	}
	key, file, err := identify(config.Settings)
	if err != nil {
		return 0, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if handle, ok := h.sourceOf[key]; ok {
		h.sources.get(handle).refs++
		return handle, config, nil
	}
	cache := newLateCache(h, func() (Tokens, error) { return h.open(h, config.Settings, file) })
	handle, err := h.sources.put(&source{tokens: cache, key: key, refs: 1})
	if err != nil {
		h.Spawn("close token cache", cache.Close)
		return 0, nil, err
	}
	h.sourceOf[key] = handle
	return handle, config, nil
}

// identify returns a key for settings: the content of inline settings, or the path of the
// file. Inline settings are refused if the environment names a file, because they may come
// from another machine and could name files to be sent to a server of their choice.
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
	// The settings came inside another document, whose parser checks only their shape.
	if _, err := contract.ParseSettings(data); err != nil {
		return "", "", err
	}
	return "inline:" + string(data), "", nil
}

// ReleaseSource gives up one use of a token cache. The last call closes it in the
// background, because closing may take time and this runs on Envoy's main thread.
func (h *Host) ReleaseSource(handle uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources.get(handle)
	if s == nil {
		return
	}
	if s.refs--; s.refs > 0 {
		return
	}
	delete(h.sourceOf, s.key)
	h.sources.drop(handle)
	h.Spawn("close token cache", s.tokens.Close)
}

// Hasten makes every open token cache connect to the control plane soon, because a token is
// about to be issued and used next. It runs on a worker and never waits: while
// configurations change it does nothing.
func (h *Host) Hasten() {
	h.eachCache(func(t Tokens) {
		if linking, ok := t.(interface{ Hasten() }); ok {
			linking.Hasten()
		}
	})
}

// EachStats calls f with the counters of each open token cache. It runs on a worker and
// never waits: it returns false while configurations change.
func (h *Host) EachStats(f func(*tokencache.Stats)) bool {
	return h.eachCache(func(t Tokens) {
		if counting, ok := t.(interface{ Stats() tokencache.Stats }); ok {
			s := counting.Stats()
			f(&s)
		}
	})
}

// eachCache calls f with each open token cache, unless it would have to wait.
func (h *Host) eachCache(f func(Tokens)) bool {
	if !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	for _, handle := range h.sourceOf {
		if c := h.sources.get(handle).tokens.cache.Load(); c != nil {
			f(*c)
		}
	}
	return true
}
