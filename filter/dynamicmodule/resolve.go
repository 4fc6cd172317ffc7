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

// pending is a look-up on its way, or the wait for a body: whoever ends it first,
// the token cache, the deadline or the front, ends it alone.
type pending struct {
	module   *module
	handle   uint32
	finished atomic.Bool
	timer    *time.Timer
	// finish hands the answer to the front; it is called exactly once.
	finish func(answer contract.Answer, packed []byte)
	// leave tells the token cache that nobody waits any more. Only the worker of
	// the stream touches it.
	leave func()
}

// await makes a pending that ends after a deadline at the latest. A full table
// costs no more than the chance to give it up.
func (m *module) await(deadline time.Duration, finish func(contract.Answer, []byte)) *pending {
	p := &pending{module: m, finish: finish}
	p.handle, _ = m.pendings.put(p)
	p.timer = time.AfterFunc(deadline, func() {
		defer m.recovered("look-up deadline")
		p.end(contract.Unavailable, nil)
	})
	return p
}

func (p *pending) end(answer contract.Answer, packed []byte) {
	if !p.finished.CompareAndSwap(false, true) {
		return
	}
	defer p.module.pendings.drop(p.handle)
	p.finish(answer, packed)
}

// giveUp ends a pending that nobody waits for any more. It runs on the worker
// whose stream has begun it.
func (m *module) giveUp(handle uint32) {
	defer m.recovered("give up")
	p := m.pendings.get(handle)
	if p == nil {
		return
	}
	p.timer.Stop()
	p.end(contract.Unavailable, nil)
	if p.leave != nil {
		p.leave()
	}
}

// resolve starts a look-up and returns its handle. It does not block, and finish
// is called exactly once whatever happens, possibly before resolve returns.
func (m *module) resolve(handle uint32, from tokencache.Source, hash contract.Hash, plugin string, deadline time.Duration,
	finish func(contract.Answer, []byte)) uint32 {
	p := m.await(deadline, finish)
	ok := false
	defer func() {
		if !ok {
			p.timer.Stop()
			p.end(contract.Unavailable, nil)
		}
	}()
	defer m.recovered("resolve")
	s := m.sources.get(handle)
	if s == nil {
		return p.handle
	}
	p.leave = s.tokens.ResolveFor(from, hash, plugin, func(answer contract.Answer, packed []byte) {
		defer m.recovered("look-up answer")
		p.timer.Stop()
		p.end(answer, packed)
	})
	ok = true
	return p.handle
}
