package delivery

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/ports"
)

// collector takes messages by syslog over TCP.
type collector struct {
	net.Listener
	mu    sync.Mutex
	taken []string
	// lines are the events as they came, in CEF.
	lines []string
	conns []net.Conn
}

func newCollector(t *testing.T, address string) *collector {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{Listener: ln}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conns = append(c.conns, conn)
			c.mu.Unlock()
			all.Go(func() { c.read(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		all.Wait()
	})
	return c
}

func (c *collector) read(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for r := bufio.NewReader(conn); ; {
		count, err := r.ReadString(' ')
		n, bad := strconv.Atoi(strings.TrimSpace(count))
		message := make([]byte, n)
		if err != nil || bad != nil {
			return
		}
		if _, err := io.ReadFull(r, message); err != nil {
			return
		}
		_, rest, _ := strings.Cut(string(message), "event_id=")
		id, _, _ := strings.Cut(rest, " ")
		c.mu.Lock()
		c.taken = append(c.taken, id)
		_, line, _ := strings.Cut(string(message), " audit - ")
		c.lines = append(c.lines, line)
		c.mu.Unlock()
	}
}

func (c *collector) events() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken)
}

// TestSyslog: a sink gets the events of all portals, with webhook or without, from when it is named on:
// each once, in the order of its portal, also what happened while the collector or the engine was away.
func TestSyslog(t *testing.T) {
	w := newWorld(t)
	free, err := ports.Free(1) // it ends, and one begins at its port: nobody else may get it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", free[0])
	c := newCollector(t, address)
	w.hook("old", newReceiver(t), true)
	w.happen("old", 0, 3) // before there is a sink
	w.sinks = []syslog.Target{{Network: "tcp", Address: address}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("p", 0, 250)
	until(t, "the first", func() bool { return slices.Equal(c.events(), want) })
	want = append(want, w.happen("old", 3, 5)...)
	until(t, "another portal", func() bool { return slices.Equal(c.events(), want) })
	stop()
	w.happen("p", 250, 300)
	_ = c.Close()
	w.start()
	w.mu.Lock()
	w.hold = true
	w.mu.Unlock()
	<-w.held // it cannot connect
	again := newCollector(t, address)
	w.resume()
	until(t, "the rest", func() bool { return len(again.events()) == 50 })
	if got := again.events(); got[0] != "p-250" || got[49] != "p-299" {
		t.Errorf("%v arrived", got)
	}
}

// registered is how many sinks events are kept for.
func (w *world) registered() (n int) {
	_ = w.s.View(w.t.Context(), func(r store.Reader) error {
		s, err := sinksOf(r)
		n = len(s.Addresses)
		return err
	})
	return n
}

// TestDatagrams: each event is a datagram.
func TestDatagrams(t *testing.T) {
	w := newWorld(t)
	pc, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.Close() }()
	w.sinks = []syslog.Target{{Network: "udp", Address: pc.LocalAddr().String()}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("p", 0, 5)
	for _, id := range want {
		b := make([]byte, 4096)
		n, _, err := pc.ReadFrom(b)
		if err != nil || !strings.Contains(string(b[:n]), "event_id="+id+" ") {
			t.Errorf("%q, %v", b[:n], err)
		}
	}
	stop()
	w.sinks = nil
	w.start()
	until(t, "the end of the sinks", func() bool { return w.registered() == 0 })
	w.happen("p", 5, 6)
	if n := len(w.kept("p")); n != 5 {
		t.Errorf("%d events are kept", n)
	}
	_ = w.s.View(t.Context(), func(r store.Reader) error {
		if n, _ := r.Count(cloud.SinkPositions, store.Query{Scope: scopeOf("udp://" + pc.LocalAddr().String())}); n != 0 {
			t.Errorf("%d positions of a sink that is gone", n)
		}
		return nil
	})
}
