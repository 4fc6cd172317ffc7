package host

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// LookupDeadline bounds a look-up. The token cache has shorter deadlines of its own; this
// one holds even if the token cache does not keep them.
const LookupDeadline = 5 * time.Second

// BodyDeadline bounds how long a body that is held back may take to arrive.
const BodyDeadline = 10 * time.Second

// Finish receives the outcome of a look-up. It is called exactly once. packed is valid
// during the call.
type Finish func(answer contract.Answer, packed []byte)

// pending is a look-up in progress, or the wait for a body. The token cache, the deadline or
// the adapter may end it. Only the first of them has an effect.
type pending struct {
	host     *Host
	handle   uint32
	finished atomic.Bool
	timer    *time.Timer
	finish   Finish
	// leave tells the token cache that nobody waits any more. Only the worker of the stream
	// uses it.
	leave func()
}

// Await begins a wait that ends with Unavailable at the deadline at the latest. The returned
// handle names it for [Host.GiveUp]. It is 0 if the table of handles is full; then only the
// deadline ends the wait.
func (h *Host) Await(deadline time.Duration, finish Finish) uint32 {
	return h.await(deadline, finish).handle
}

func (h *Host) await(deadline time.Duration, finish Finish) *pending {
	p := &pending{host: h, finish: finish}
	p.handle, _ = h.pendings.put(p)
	p.timer = time.AfterFunc(deadline, func() {
		defer h.Recovered("look-up deadline")
		p.end(contract.Unavailable, nil)
	})
	return p
}

func (p *pending) end(answer contract.Answer, packed []byte) {
	if !p.finished.CompareAndSwap(false, true) {
		return
	}
	defer p.host.pendings.drop(p.handle)
	p.finish(answer, packed)
}

// GiveUp ends a look-up or a wait because its request has gone. It does nothing if that has
// already ended. It runs on the worker that began it.
func (h *Host) GiveUp(handle uint32) {
	defer h.Recovered("give up")
	p := h.pendings.get(handle)
	if p == nil {
		return
	}
	p.timer.Stop()
	p.end(contract.Unavailable, nil)
	if p.leave != nil {
		p.leave()
	}
}

// Resolve starts a look-up in the deeper levels of a source, on behalf of a client, and
// returns its handle. It does not block. finish is always called exactly once, possibly
// before Resolve returns.
func (h *Host) Resolve(source uint32, from tokencache.Asker, hash contract.Hash, plugin string, deadline time.Duration, finish Finish) uint32 {
	p := h.await(deadline, finish)
	ok := false
	defer func() {
		if !ok {
			p.timer.Stop()
			p.end(contract.Unavailable, nil)
		}
	}()
	defer h.Recovered("resolve")
	s := h.sources.get(source)
	if s == nil {
		return p.handle
	}
	p.leave = s.tokens.ResolveFor(from, hash, plugin, func(answer contract.Answer, packed []byte) {
		defer h.Recovered("look-up answer")
		p.timer.Stop()
		p.end(answer, packed)
	})
	ok = true
	return p.handle
}

// Ask looks a token up in the deeper levels of a source, as [Host.Resolve] does, and waits
// for the answer. It gives the look-up up when ctx ends.
func (h *Host) Ask(ctx context.Context, source uint32, from tokencache.Asker, hash contract.Hash, plugin string) engine.Found {
	answered := make(chan engine.Found, 1)
	handle := h.Resolve(source, from, hash, plugin, LookupDeadline, func(answer contract.Answer, packed []byte) {
		answered <- engine.Found{Hash: hash, Answer: answer, Packed: bytes.Clone(packed)}
	})
	select {
	case f := <-answered:
		return f
	case <-ctx.Done():
		h.GiveUp(handle)
		return engine.Found{Hash: hash, Answer: contract.Unavailable}
	}
}
