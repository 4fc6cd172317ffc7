package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// probe is a name that no control plane has. Asking for it must be answered,
// which tells that everything before it was taken in.
const probe = "fleet-probe"

// rawCodec hands messages over as they are.
type rawCodec struct{}

// Name implements encoding.CodecV2; the content type stays that of protobuf.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2. The receiver frees the buffer.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*mem.Buffer) = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// held is a resource that a client has.
type held struct {
	version string
	content xxh3.Uint128
	facts   *facts
}

// client is one data plane: a connection with one delta stream, and the versions
// of what it holds. It subscribes as an Envoy does, but acknowledges at once.
type client struct {
	fleet       *fleet
	index       int
	name, token string

	cancel context.CancelFunc
	conn   *grpc.ClientConn
	stream grpc.ClientStream // used by the reader alone once it runs
	done   chan struct{}     // closed when the reader has ended

	mu       sync.Mutex
	table    [kinds]map[string]held
	names    [kinds]map[string]bool // subscribed by name
	answered [kinds]bool
	asked    bool // listeners were asked for
	probed   bool // an answer to the probe has come on this connection
	goal     *goal
	seen     map[string]bool
	want     int
	closing  bool
	err      error
}

func newClient(f *fleet, index int, name, token string) *client {
	c := &client{fleet: f, index: index, name: name, token: token}
	c.forget()
	return c
}

// forget makes the client one that never was connected.
func (c *client) forget() {
	for k := range kinds {
		c.table[k], c.names[k] = map[string]held{}, map[string]bool{}
	}
	c.answered, c.asked = [kinds]bool{}, false
}

// begin sends the first requests; c.mu is held.
func (c *client) begin() error {
	if !c.answered[lds] {
		c.forget()
		return c.send(request{node: c.fleet.mesh + "." + c.name, kind: cds})
	}
	node := c.fleet.mesh + "." + c.name
	for k := range kinds {
		r := request{node: node, kind: k, versions: map[string]string{}, subscribe: slices.Collect(maps.Keys(c.names[k]))}
		for name, h := range c.table[k] {
			r.versions[name] = h.version
		}
		if err := c.send(r); err != nil {
			return err
		}
		node = "" // the first request alone carries it
	}
	return c.send(request{kind: eds, subscribe: []string{probe}})
}

func (c *client) send(r request) error { return c.stream.SendMsg(r.append(nil)) }

// close ends the connection and waits for the reader.
func (c *client) close() {
	c.mu.Lock()
	c.closing = true
	conn, cancel, done := c.conn, c.cancel, c.done
	c.mu.Unlock()
	if conn == nil {
		return
	}
	_ = conn.Close()
	cancel()
	<-done
}

// read handles messages until the stream ends.
func (c *client) read(done chan struct{}) {
	defer close(done)
	var r response
	for {
		var buf mem.Buffer
		err := c.stream.RecvMsg(&buf)
		now := time.Now()
		if err == nil {
			err = c.receive(now, buf.ReadOnlyData(), &r)
			buf.Free()
		}
		if err != nil {
			c.mu.Lock()
			if !c.closing {
				c.err = fmt.Errorf("client %s: %w", c.name, err)
				c.fleet.broke(c.err)
			}
			c.mu.Unlock()
			return
		}
	}
}

// receive takes one response in, subscribes to what it names and acknowledges.
func (c *client) receive(now time.Time, b []byte, r *response) error {
	if err := r.read(b); err != nil {
		return err
	}
	k, ok := kindOf(r.url)
	if !ok {
		return fmt.Errorf("a response of the unknown type %q", r.url)
	}
	c.fleet.count(now, k, len(b), r)
	c.mu.Lock()
	defer c.mu.Unlock()
	was, probed := c.complete(), c.probed
	c.answered[k] = true
	for i := range r.items {
		if err := c.put(now, k, &r.items[i]); err != nil {
			return fmt.Errorf("%s %q: %w", shortTypes[k], r.items[i].name, err)
		}
	}
	for _, name := range r.removed {
		delete(c.table[k], name)
		c.probed = c.probed || k == eds && name == probe
	}
	if err := c.send(request{kind: k, nonce: r.nonce}); err != nil {
		return err
	}
	if k == cds || k == lds {
		if err := c.resubscribe(); err != nil {
			return err
		}
	}
	// An Envoy asks for listeners when its clusters are warm.
	if c.answered[cds] && !c.asked && len(c.lacking()) == 0 {
		c.asked = true
		return c.send(request{kind: lds})
	}
	if !was && c.complete() {
		c.reach(now, "", func(g *goal) bool { return g.complete })
	}
	if c.probed && !probed {
		if err := c.send(request{kind: eds, unsubscribe: []string{probe}}); err != nil {
			return err
		}
		c.reach(now, "", func(g *goal) bool { return g.probe })
	}
	return nil
}

func (c *client) put(now time.Time, k kind, it *item) error {
	if k == eds && it.name == probe {
		c.probed = true
		return nil
	}
	h := held{version: it.version, content: xxh3.Hash128(it.value)}
	if k == cds || k == lds {
		var err error
		if h.facts, err = c.fleet.factsOf(k, h.content, it.value); err != nil {
			return err
		}
	}
	old, had := c.table[k][it.name]
	c.table[k][it.name] = h
	if c.goal != nil && c.goal.match != nil {
		var err error
		c.reach(now, shortTypes[k]+" "+it.name, func(g *goal) bool {
			var yes bool
			yes, err = g.match(k, h, it.value)
			return yes && (!had || old.content != h.content)
		})
		return err
	}
	return nil
}

// reach records that a part of the goal was met; c.mu is held.
func (c *client) reach(now time.Time, part string, met func(*goal) bool) {
	if c.goal == nil || c.seen[part] || len(c.seen) >= c.want || !met(c.goal) {
		return
	}
	c.seen[part] = true
	if len(c.seen) == c.want {
		c.goal.arrived(c.index, now)
	}
}

// resubscribe follows the names that clusters and listeners use.
func (c *client) resubscribe() error {
	var now [kinds]map[string]bool
	for _, k := range []kind{eds, rds, sds} {
		now[k] = map[string]bool{}
	}
	for _, k := range []kind{cds, lds} {
		for _, h := range c.table[k] {
			if h.facts.endpoints != "" {
				now[eds][h.facts.endpoints] = true
			}
			for _, n := range h.facts.routes {
				now[rds][n] = true
			}
			for _, n := range h.facts.secrets {
				now[sds][n] = true
			}
		}
	}
	for _, k := range []kind{eds, sds, rds} {
		r := request{kind: k, subscribe: less(now[k], c.names[k]), unsubscribe: less(c.names[k], now[k])}
		for _, n := range r.unsubscribe {
			delete(c.table[k], n)
		}
		c.names[k] = now[k]
		if len(r.subscribe)+len(r.unsubscribe) > 0 {
			if err := c.send(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// less returns the sorted names in a that are not in b.
func less(a, b map[string]bool) []string {
	var out []string
	for n := range a {
		if !b[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// lacking lists what the client waits for.
func (c *client) lacking() []string {
	var out []string
	for k := range kinds {
		if k == cds || k == lds {
			continue
		}
		for n := range c.names[k] {
			if _, ok := c.table[k][n]; !ok {
				out = append(out, shortTypes[k]+" "+n)
			}
		}
	}
	return out
}

// complete reports whether the client holds everything that it asked for.
func (c *client) complete() bool {
	return c.answered[cds] && c.answered[lds] && len(c.lacking()) == 0
}

// state describes in a few words what is missing, for errors.
func (c *client) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s met %d of %d", c.name, len(c.seen), c.want)
	for k := range kinds {
		fmt.Fprintf(&b, ", %d %s", len(c.table[k]), shortTypes[k])
	}
	if l := c.lacking(); len(l) > 0 {
		fmt.Fprintf(&b, ", waits for %s", strings.Join(l[:min(len(l), 3)], ", "))
	}
	return b.String()
}

// clientTLS trusts one authority; nothing is resumed, every client shakes hands.
func clientTLS(roots []byte) (*tls.Config, error) {
	pool, err := poolOf(roots)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}, nil
}
