package host

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// Opener opens the token cache for settings, or for a settings file if settings is nil.
// [Host.OpenCache] is the real one.
type Opener func(h *Host, settings *contract.Settings, file string) (Tokens, error)

// Host is the state of the filter in one process. It is safe for concurrent use, and
// lasts as long as the process.
type Host struct {
	log  *slog.Logger
	open Opener

	// chained is set once there is a chain. The filter is part of every inbound of every
	// sidecar. A filter whose routes check no tokens must not keep a link to the control
	// plane, because revocations would have to wait for it.
	chained atomic.Bool

	sources  table[source]
	programs table[engine.Ref]
	pendings table[pending]
	interner *engine.Interner
	bodies   Budget

	mu         sync.Mutex
	sourceOf   map[string]uint32 // guarded by mu
	background sync.WaitGroup
}

// New returns a host without sources and programs.
func New(log *slog.Logger, open Opener) *Host {
	return &Host{log: log, open: open, interner: engine.NewInterner(), sourceOf: map[string]uint32{}}
}

// Log returns the logger of the host.
func (h *Host) Log() *slog.Logger { return h.log }

// Recovered ends a panic of an entry into Go or of a goroutine, and logs it. It must be
// deferred directly. The result of the entry keeps its zero value, which refuses.
func (h *Host) Recovered(where string) {
	if p := recover(); p != nil {
		h.LogPanic(where, p)
	}
}

// LogPanic logs a panic that an adapter has recovered by itself.
func (h *Host) LogPanic(where string, p any) {
	h.log.Error("panic recovered", "where", where, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// Spawn runs work in a goroutine that the host owns.
func (h *Host) Spawn(where string, work func()) {
	h.background.Add(1)
	go func() {
		defer h.background.Done()
		defer h.Recovered(where)
		work()
	}()
}

// Wait returns when the goroutines that the host owns have ended.
func (h *Host) Wait() { h.background.Wait() }
