package freshness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// held is what stands under a key of a Redis.
type held struct {
	value   string
	expires int64 // in milliseconds of Unix time, 0 for never
}

// server is a Redis that speaks RESP. What it holds goes back, its name changes and
// its answers come late only when a test says so.
type server struct {
	mu   sync.Mutex
	id   string
	data map[string]held
	full bool
	// asks holds what clients send, answers what they are told.
	asks, answers *gate
	of            ends
	// forgets, a defect, makes it forget what it has confirmed.
	forgets func(value string) bool
}

func newServer(id string, data map[string]held) *server {
	return &server{id: id, data: maps.Clone(data), asks: newGate(), answers: newGate()}
}

func (s *server) dump() map[string]held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data)
}

func (s *server) become(data map[string]held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = maps.Clone(data)
}

func (s *server) evict(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys := slices.Sorted(maps.Keys(s.data)); len(keys) > 0 {
		delete(s.data, keys[n%len(keys)])
	}
}

func (s *server) setFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// serve carries out commands until the end of the connection. Who has asked and
// gone is served all the same.
func (s *server) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		cmd, err := command(in)
		if err != nil {
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(conn, s.answer(cmd))
	}
}

// command reads an array of strings.
func command(in *bufio.Reader) ([]string, error) {
	n, err := length(in, '*')
	if err != nil {
		return nil, err
	}
	cmd := make([]string, n)
	for i := range cmd {
		size, err := length(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		cmd[i] = string(text[:size])
	}
	return cmd, nil
}

func length(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errors.New("no command")
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func (s *server) answer(cmd []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch strings.ToUpper(cmd[0]) {
	case "INFO":
		return bulk(fmt.Sprintf("# %s\r\nrun_id:%s\r\nmaster_replid:%s-data\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", cmd[1], s.id, s.id))
	case "SET":
		return s.set(cmd)
	case "GET":
		if text, ok := s.get(cmd[1]); ok {
			return bulk(text)
		}
		return "$-1\r\n"
	case "GETRANGE":
		text, _ := s.get(cmd[1])
		end, err := strconv.Atoi(cmd[3])
		if err != nil {
			return "-ERR value is not an integer\r\n"
		}
		return bulk(text[:min(len(text), end+1)])
	}
	return "-ERR unknown command\r\n"
}

func (s *server) get(key string) (string, bool) {
	h, ok := s.data[key]
	if h.expires != 0 && h.expires <= time.Now().UnixMilli() {
		delete(s.data, key)
		return "", false
	}
	return h.value, ok
}

func (s *server) set(cmd []string) string {
	h := held{value: cmd[2]}
	for i, word := range cmd[3:] {
		switch strings.ToUpper(word) {
		case "PXAT":
			h.expires, _ = strconv.ParseInt(cmd[i+4], 10, 64)
		case "EXAT":
			h.expires, _ = strconv.ParseInt(cmd[i+4], 10, 64)
			h.expires *= 1000
		}
	}
	switch {
	case s.full:
		return "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
	case s.forgets == nil || !s.forgets(cmd[2]):
		s.data[cmd[1]] = h
	}
	return "+OK\r\n"
}

// route is how somebody gets to the Redis of the moment.
type route struct {
	redis   *redises
	refused bool
	gates   []*gate // of what is sent and, behind it, of what comes back
	mine    ends
}

// redises is where Redis is: the server that the name leads to. Others may live on.
type redises struct {
	mu      sync.Mutex
	current *server
	former  []*server
	work    sync.WaitGroup
}

func (r *redises) now() *server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// turn makes another server the one that the name leads to. The former dies, or
// lives on for those who are connected.
func (r *redises) turn(next *server, lives bool) {
	r.mu.Lock()
	last := r.current
	r.current = next
	r.former = append(r.former, last)
	r.mu.Unlock()
	if !lives {
		last.of.cut()
	}
}

// alone ends the servers that were the one once.
func (r *redises) alone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.former {
		s.of.cut()
	}
}

// dial opens a connection on a route.
func (r *route) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r.redis.mu.Lock()
	s, refused := r.redis.current, r.refused
	r.redis.mu.Unlock()
	for _, g := range append([]*gate{s.asks, s.answers}, r.gates...) {
		if !g.pass(ctx.Done()) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
	}
	if refused || s != r.redis.now() {
		return nil, errRefused
	}
	client, near := net.Pipe()
	far, served := net.Pipe()
	w := newWire(near, far)
	s.of.add(w)
	r.mine.add(w)
	up, down := []*gate{s.asks}, []*gate{s.answers}
	if len(r.gates) > 0 {
		up, down = append(up, r.gates[0]), append(down, r.gates[len(r.gates)-1])
	}
	r.redis.work.Go(func() { s.serve(served) })
	w.carry(&r.redis.work, pieces(near), far, up...)
	w.carry(&r.redis.work, pieces(far), near, down...)
	return &socket{Conn: client, wire: w}, nil
}

// socket lets the library see that a connection was closed while it was idle, as it
// does where there is a real one.
type socket struct {
	net.Conn
	wire   *wire
	closed atomic.Bool
}

// Close implements [net.Conn].
func (s *socket) Close() error {
	s.closed.Store(true)
	return s.Conn.Close()
}

// SyscallConn implements [syscall.Conn].
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	select {
	case <-s.wire.gone:
		return nil, net.ErrClosed
	default:
	}
	if s.closed.Load() {
		return nil, net.ErrClosed
	}
	return noSocket{}, nil
}

// noSocket is not looked at.
type noSocket struct{}

// Control implements [syscall.RawConn].
func (noSocket) Control(func(uintptr)) error { return nil }

// Read implements [syscall.RawConn].
func (noSocket) Read(func(uintptr) bool) error { return nil }

// Write implements [syscall.RawConn].
func (noSocket) Write(func(uintptr) bool) error { return nil }

// refuse ends what is connected on a route, and lets nobody connect.
func (r *route) refuse(refused bool) {
	r.redis.mu.Lock()
	r.refused = refused
	r.redis.mu.Unlock()
	if refused {
		r.mine.cut()
	}
}

// end lets every server answer, and then ends all connections.
func (r *redises) end() {
	r.mu.Lock()
	all := append([]*server{r.current}, r.former...)
	r.mu.Unlock()
	for _, s := range all {
		s.asks.set(false)
		s.answers.set(false)
		s.of.cut()
	}
	r.work.Wait()
}
