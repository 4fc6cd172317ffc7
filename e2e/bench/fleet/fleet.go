package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// quiet is how long no message may arrive before a round counts as over.
const quiet = 500 * time.Millisecond

// traffic is what the control plane has sent. Bytes are those of the messages,
// without framing and TLS.
type traffic struct {
	Messages  map[string]int64 `json:"messages"`
	Bytes     map[string]int64 `json:"bytes"`
	Resources map[string]int64 `json:"resources"`
	Removed   int64            `json:"removed"`
}

// counters are the running totals behind traffic.
type counters struct {
	messages, bytes, resources [kinds]atomic.Int64
	removed                    atomic.Int64
}

// sub returns what came since an earlier reading.
func (t traffic) sub(old traffic) traffic {
	d := traffic{Messages: map[string]int64{}, Bytes: map[string]int64{}, Resources: map[string]int64{}, Removed: t.Removed - old.Removed}
	for _, k := range shortTypes {
		d.Messages[k] = t.Messages[k] - old.Messages[k]
		d.Bytes[k] = t.Bytes[k] - old.Bytes[k]
		d.Resources[k] = t.Resources[k] - old.Resources[k]
	}
	return d
}

func total(m map[string]int64) (sum int64) {
	for _, v := range m {
		sum += v
	}
	return sum
}

// fleet is all clients.
type fleet struct {
	address, mesh string
	tls           *tls.Config
	clients       []*client

	counters counters
	last     atomic.Int64  // when the last message arrived, in Unix nanoseconds
	activity chan struct{} // has a value when a message has arrived
	broken   chan struct{} // has a value when a stream has broken
	facts    sync.Map      // contentKey -> *facts

	mu     sync.Mutex
	reason error // why the first stream broke
	breaks int
	turned turned
}

func newFleet(address, mesh string, t *tls.Config) *fleet {
	return &fleet{address: address, mesh: mesh, tls: t, activity: make(chan struct{}, 1), broken: make(chan struct{}, 1)}
}

type contentKey struct {
	kind    kind
	content xxh3.Uint128
}

// factsOf reads what a resource refers to, once for equal bytes.
func (f *fleet) factsOf(k kind, content xxh3.Uint128, value []byte) (*facts, error) {
	if v, ok := f.facts.Load(contentKey{k, content}); ok {
		return v.(*facts), nil
	}
	x, err := references(k, value)
	if err != nil {
		return nil, err
	}
	v, _ := f.facts.LoadOrStore(contentKey{k, content}, x)
	return v.(*facts), nil
}

// count takes note of a message. The answer to a probe counts as a message that
// has no resources.
func (f *fleet) count(now time.Time, k kind, size int, r *response) {
	c := &f.counters
	c.messages[k].Add(1)
	c.bytes[k].Add(int64(size))
	for i := range r.items {
		if r.items[i].name != probe {
			c.resources[k].Add(1)
		}
	}
	for _, name := range r.removed {
		if name != probe {
			c.removed.Add(1)
		}
	}
	f.last.Store(now.UnixNano())
	notify(f.activity)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *fleet) traffic() traffic {
	t := traffic{Messages: map[string]int64{}, Bytes: map[string]int64{}, Resources: map[string]int64{}, Removed: f.counters.removed.Load()}
	for k, name := range shortTypes {
		t.Messages[name] = f.counters.messages[k].Load()
		t.Bytes[name] = f.counters.bytes[k].Load()
		t.Resources[name] = f.counters.resources[k].Load()
	}
	return t
}

// turned is who had to come back.
type turned struct {
	// Times is how often clients were turned away before they were let in.
	Times int `json:"times"`
	// First is why, the first time.
	First string `json:"first,omitempty"`
}

// turnedAway is told by a client that it has to come back.
func (f *fleet) turnedAway(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turned.Times++; f.turned.Times == 1 {
		f.turned.First = err.Error()
	}
}

// turns returns who had to come back, and forgets it.
func (f *fleet) turns() turned {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.turned
	f.turned = turned{}
	return t
}

// broke is told by a client that its stream ended unasked.
func (f *fleet) broke(err error) {
	f.mu.Lock()
	f.breaks++
	if f.reason == nil {
		f.reason = err
	}
	f.mu.Unlock()
	notify(f.broken)
}

// breakage returns why streams broke, and forgets it.
func (f *fleet) breakage() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err, n := f.reason, f.breaks
	f.reason, f.breaks = nil, 0
	select {
	case <-f.broken:
	default:
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%d streams ended, the first: %w", n, err)
}

// settle waits until no message has arrived for a time.
func (f *fleet) settle(ctx context.Context, silence time.Duration) error {
	t := time.NewTimer(silence)
	defer t.Stop()
	for {
		select {
		case <-f.activity:
			t.Reset(silence)
		case <-t.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("messages do not stop: %w", ctx.Err())
		}
	}
}

// goal is what clients wait for in a round.
type goal struct {
	// complete and probe are met by a client that holds all it asked for, and by
	// one that got an answer to its probe.
	complete, probe bool
	// match reports whether a resource that changed is a part of the goal.
	match func(k kind, h held, value []byte) (bool, error)
	// want is how many parts a client needs; 0 leaves it out. The client is locked.
	want func(c *client) int

	mu    sync.Mutex
	times map[int]time.Time
	left  int
	done  chan struct{}
}

func (g *goal) arrived(index int, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times[index] = now
	if g.left--; g.left == 0 {
		close(g.done)
	}
}

// latencies are those of the clients that got there.
func (g *goal) latencies(start time.Time) []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []time.Duration
	for _, t := range g.times {
		out = append(out, t.Sub(start))
	}
	return out
}

// aim gives all clients a goal and returns how many take part. Its lock is held
// throughout, so that the goal is not reached before all have it.
func (f *fleet) aim(g *goal) int {
	g.times, g.done = map[int]time.Time{}, make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range f.clients {
		c.mu.Lock()
		c.goal, c.seen, c.want = nil, map[string]bool{}, g.want(c)
		if c.want > 0 {
			c.goal = g
			g.left++
		}
		c.mu.Unlock()
	}
	return g.left
}

// await waits until the goal is reached by all who take part.
func (f *fleet) await(ctx context.Context, g *goal) error {
	select {
	case <-g.done:
		return nil
	case <-f.broken:
		return errors.Join(f.breakage(), f.missing(g))
	case <-ctx.Done():
		return errors.Join(ctx.Err(), f.breakage(), f.missing(g))
	}
}

// missing names some clients that did not get there.
func (f *fleet) missing(g *goal) error {
	g.mu.Lock()
	left := g.left
	var who []int
	for i, c := range f.clients {
		if _, ok := g.times[c.index]; !ok && len(who) < 3 {
			who = append(who, i)
		}
	}
	g.mu.Unlock()
	if left == 0 {
		return nil
	}
	err := fmt.Errorf("%d clients did not get there", left)
	for _, i := range who {
		err = fmt.Errorf("%w; %s", err, f.clients[i].state())
	}
	return err
}

// all calls a function for every client at once and returns the first errors.
func (f *fleet) all(do func(*client) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.clients))
	for i, c := range f.clients {
		wg.Go(func() {
			if err := do(c); err != nil {
				errs[i] = fmt.Errorf("client %s: %w", c.name, err)
			}
		})
	}
	wg.Wait()
	var first error
	n := 0
	for _, err := range errs {
		if err != nil {
			if n++; first == nil {
				first = err
			}
		}
	}
	if n > 0 {
		return fmt.Errorf("%d clients failed, the first: %w", n, first)
	}
	return nil
}

func (f *fleet) openAll(ctx context.Context) error {
	return f.all(func(c *client) error { return c.open(ctx) })
}

func (f *fleet) closeAll() {
	_ = f.all(func(c *client) error { c.close(); return nil })
	_ = f.breakage()
}

// repair connects again what broke in an earlier scenario.
func (f *fleet) repair(ctx context.Context, within time.Duration) error {
	_ = f.breakage()
	g := &goal{complete: true, want: func(c *client) int {
		if c.err != nil || c.conn == nil || c.closing || !c.complete() {
			return 1
		}
		return 0
	}}
	if f.aim(g) == 0 {
		return nil
	}
	err := f.all(func(c *client) error {
		c.mu.Lock()
		part := c.goal == g
		c.mu.Unlock()
		if !part {
			return nil
		}
		c.close()
		c.mu.Lock()
		c.forget()
		c.mu.Unlock()
		return c.open(ctx)
	})
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err == nil {
		err = f.await(waiting, g)
	}
	if err != nil {
		return fmt.Errorf("the fleet could not be connected again: %w", err)
	}
	return f.settle(waiting, quiet)
}
