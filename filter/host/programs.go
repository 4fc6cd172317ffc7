package host

import "github.com/meshgate/meshgate/filter/engine"

// AcquireProgram returns a handle for the program of a chain, and the program. A chain that
// cannot be used yields a program that refuses.
func (h *Host) AcquireProgram(chain []byte) (uint32, *engine.Program, error) {
	h.Begin()
	ref := h.interner.Acquire(chain)
	if fault := ref.Program().Fault(); fault != "" {
		h.log.Error("chain of a route is unusable, its requests are refused", "error", fault)
	}
	handle, err := h.programs.put(ref)
	if err != nil {
		ref.Release()
		return 0, nil, err
	}
	return handle, ref.Program(), nil
}

// Begin opens the existing token caches, and makes each later one open at once. The first
// chain has the same effect.
func (h *Host) Begin() {
	if !h.chained.CompareAndSwap(false, true) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, handle := range h.sourceOf {
		h.sources.get(handle).tokens.begin()
	}
}

// ReleaseProgram gives a program up. It runs on any thread, including workers, for whole
// route tables at once.
func (h *Host) ReleaseProgram(handle uint32) {
	if ref := h.programs.drop(handle); ref != nil {
		ref.Release()
	}
}

// Program returns the program of a handle, or nil if the handle names nothing.
func (h *Host) Program(handle uint32) *engine.Program {
	if ref := h.programs.get(handle); ref != nil {
		return ref.Program()
	}
	return nil
}
