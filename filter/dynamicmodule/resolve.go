package main

import (
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// lookupDeadline bounds a look-up from here. The token cache has shorter ones of
// its own; this one holds even if it breaks its promise.
const lookupDeadline = 5 * time.Second

// bodyDeadline bounds how long a body that is held back may take to arrive.
const bodyDeadline = 10 * time.Second

// pending is a look-up on its way: whoever ends it first, the token cache or the
// deadline, ends it alone.
type pending struct {
	finished atomic.Bool
	// finish hands the answer to the front; it is called exactly once.
	finish func(answer contract.Answer, packed []byte)
}

func (p *pending) end(answer contract.Answer, packed []byte) {
	if !p.finished.CompareAndSwap(false, true) {
		return
	}
	p.finish(answer, packed)
}

// resolve starts a look-up. It does not block, and finish is called exactly
// once whatever happens, possibly before resolve returns.
func (m *module) resolve(handle uint32, from tokencache.Source, hash contract.Hash, plugin string, deadline time.Duration,
	finish func(contract.Answer, []byte)) {
	p := &pending{finish: finish}
	timer := time.AfterFunc(deadline, func() {
		defer m.recovered("look-up deadline")
		p.end(contract.Unavailable, nil)
	})
	ok := false
	defer func() {
		if !ok {
			timer.Stop()
			p.end(contract.Unavailable, nil)
		}
	}()
	defer m.recovered("resolve")
	s := m.sources.get(handle)
	if s == nil {
		return
	}
	s.tokens.ResolveFor(from, hash, plugin, func(answer contract.Answer, packed []byte) {
		defer m.recovered("look-up answer")
		timer.Stop()
		p.end(answer, packed)
	})
	ok = true
}
