// Command storm is the library of the contrib filter with a token cache that the host
// changes: it revokes tokens, accepts them again, and has the first level forget them. The
// cache keeps its promise to the letter, so whatever breaks it is the adapter.
package main

import "C"

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/golang/library"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// number of tokens, t0 and so on, of the consumers consumer-0 and so on.
const number = 64

// cache is the only token cache of the process, whatever opens it.
type cache struct {
	mu     sync.Mutex
	tokens [number]token
	of     map[contract.Hash]*token
	open   int // how many use it

	// Look-ups wait for the gate when they have read what is true, and say so.
	gate    sync.Mutex
	arrived chan struct{}
	held    bool
}

type token struct {
	packed  []byte
	good    bool
	known   contract.Answer // to the first level
	turn    uint64          // changes with good
	waiting []*waiter       // for the look-up that is on its way
}

type waiter struct {
	done func(contract.Answer, []byte)
}

var tokens = newCache()

func newCache() *cache {
	c := &cache{of: map[contract.Hash]*token{}, arrived: make(chan struct{}, number)}
	for i := range c.tokens {
		r := contract.Record{Version: 1, Service: "s", Credential: contract.Credential{ID: "c", ClientID: "client"},
			Consumer: &contract.Consumer{ID: fmt.Sprintf("consumer-%d", i), Username: "alice"}}
		c.tokens[i] = token{packed: r.Pack(nil), good: true, known: contract.Miss}
		c.of[contract.HashToken(fmt.Appendf(nil, "t%d", i))] = &c.tokens[i]
	}
	return c
}

// Lookup implements [host.Tokens].
func (c *cache) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of[hash]
	if t == nil {
		return 0, contract.Miss
	}
	if t.known == contract.Found {
		return copy(dst, t.packed), contract.Found
	}
	return 0, t.known
}

// ResolveFor implements [host.Tokens]. Who comes during a look-up waits for it.
func (c *cache) ResolveFor(_ tokencache.Asker, hash contract.Hash, _ string, done func(contract.Answer, []byte)) (giveUp func()) {
	w := &waiter{done}
	c.mu.Lock()
	t := c.of[hash]
	if t == nil {
		t = &token{} // a stranger's
	}
	t.waiting = append(t.waiting, w)
	alone := len(t.waiting) == 1
	c.mu.Unlock()
	if alone {
		go c.fill(t)
	}
	return func() { c.leave(t, w) }
}

func (c *cache) leave(t *token, w *waiter) {
	c.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting[i] = &waiter{func(contract.Answer, []byte) {}} // the look-up goes on
	}
	c.mu.Unlock()
	if i >= 0 {
		w.done(contract.Unavailable, nil)
	}
}

// fill looks a token up. If it changes meanwhile, it looks again.
func (c *cache) fill(t *token) {
	for {
		dawdle()
		c.mu.Lock()
		good, turn, held := t.good, t.turn, c.held
		c.mu.Unlock()
		if held {
			c.arrived <- struct{}{}
			c.gate.Lock()
			c.gate.Unlock() //nolint:staticcheck // it only waits
		}
		dawdle()
		c.mu.Lock()
		if t.turn != turn {
			c.mu.Unlock()
			continue
		}
		answer := contract.Unknown
		if good {
			answer = contract.Found
		}
		waiting := t.waiting
		t.known, t.waiting = answer, nil
		c.mu.Unlock()
		for _, w := range waiting {
			w.done(answer, t.packed)
		}
		return
	}
}

// dawdle lets others run.
func dawdle() {
	for range rand.IntN(8) {
		runtime.Gosched()
	}
}

// Close implements [host.Tokens].
func (c *cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// stormSet revokes a token, or makes it good. It is so when this returns.
//
//export stormSet
func stormSet(i C.int, good C.int) {
	tokens.mu.Lock()
	defer tokens.mu.Unlock()
	t := &tokens.tokens[i]
	t.good, t.known = good != 0, contract.Miss
	t.turn++
}

// stormForget has the first level forget a token.
//
//export stormForget
func stormForget(i C.int) {
	tokens.mu.Lock()
	defer tokens.mu.Unlock()
	tokens.tokens[i].known = contract.Miss
}

// stormHold has look-ups wait when they have read what is true, or lets them go on.
//
//export stormHold
func stormHold(hold C.int) {
	if hold != 0 {
		tokens.gate.Lock()
	} else {
		tokens.gate.Unlock()
	}
	tokens.mu.Lock()
	defer tokens.mu.Unlock()
	tokens.held = hold != 0
}

// stormArrived returns when a look-up has begun to wait.
//
//export stormArrived
func stormArrived() { <-tokens.arrived }

// stormPut has the first level know a token.
//
//export stormPut
func stormPut(hash *C.uchar, packed *C.uchar, n C.int) {
	var h contract.Hash
	copy(h[:], unsafe.Slice((*byte)(unsafe.Pointer(hash)), len(h)))
	t := &token{packed: C.GoBytes(unsafe.Pointer(packed), n), good: true, known: contract.Found}
	tokens.mu.Lock()
	defer tokens.mu.Unlock()
	tokens.of[h] = t
}

// stormGo tells how many objects Go has made since the start, how many bytes it has in use, how
// many goroutines there are, and how many token caches are open.
//
//export stormGo
func stormGo(out *C.ulonglong) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	tokens.mu.Lock()
	defer tokens.mu.Unlock()
	copy(unsafe.Slice((*uint64)(unsafe.Pointer(out)), 4), []uint64{m.Mallocs, m.HeapAlloc, uint64(runtime.NumGoroutine()), uint64(tokens.open)})
}

func init() {
	library.Register(func(*host.Host, *contract.Settings, string) (host.Tokens, error) {
		tokens.mu.Lock()
		defer tokens.mu.Unlock()
		tokens.open++
		return tokens, nil
	})
}

func main() {}
