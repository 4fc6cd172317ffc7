package attacker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// siege is one run of the attacker at the ports of a control plane.
type siege struct {
	ports []*port
	seed  uint64
	// only is the number of the one attack to repeat; 0 means all. attacks is how many there are.
	only, attacks uint64
	// patience bounds every answer and every end.
	patience time.Duration

	next   atomic.Uint64
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

// attempt is one attack at a port: what is done, and what went wrong, or "".
type attempt struct {
	what string
	try  func() string
}

// attack attacks until all has been tried or something is wrong.
func (s *siege) attack(workers int) {
	s.counts = map[string]int{}
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for len(s.violations()) == 0 {
				n := s.next.Add(1)
				if n > s.attacks || s.only != 0 && n > 1 {
					return
				}
				if s.only != 0 {
					n = s.only
				}
				s.one(n)
			}
		})
	}
	work.Wait()
}

// one makes the attack with a number.
func (s *siege) one(n uint64) {
	p := s.ports[n%uint64(len(s.ports))]
	a := s.prepare(p, n)
	s.count(p.name + " attacked")
	if problem := a.try(); problem != "" {
		s.report(fmt.Sprintf("attack %d at %s: %s: %s", n, p.name, problem, a.what[:min(len(a.what), 3000)]))
	}
}

// prepare chooses what is done. Everything depends on the seed and the number alone.
func (s *siege) prepare(p *port, n uint64) attempt {
	r := rand.New(rand.NewPCG(s.seed, ^n))
	roll := r.IntN(100)
	switch {
	case p.commands:
		raw := []byte(command(r))
		if roll < 30 {
			raw = greetings(r)
		}
		return s.throwing(p, raw, false, "")
	case roll < 20:
		return s.throwing(p, greetings(r), p.secure != 0, "")
	case p.calls && roll < 40:
		return s.throwing(p, append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frames(r)...), true, "h2")
	case p.calls && roll < 65:
		return s.calling(p, calls(r))
	case p.secure != 0 && roll < 25: // noise inside TLS
		return s.throwing(p, greetings(r), true, "http/1.1")
	}
	a := newAttack(&p.door, s.seed, n)
	switch {
	case roll > 91:
		return s.leaving(a)
	case a.http2:
		return attempt{a.String(), func() string { return s.overHTTP2(p, a) }}
	}
	return attempt{a.String(), func() string { return s.overHTTP1(p, a) }}
}

// throwing sends bytes, over TLS if a protocol is named, and no more. The server must end the
// connection.
func (s *siege) throwing(p *port, raw []byte, secure bool, protocol string) attempt {
	return attempt{fmt.Sprintf("%q over %q", raw, protocol), func() string {
		open := func() (net.Conn, error) { return dialRaw(&p.door, secure) }
		if protocol != "" {
			open = func() (net.Conn, error) { return dial(&p.door, true, protocol) }
		}
		conn, err := open()
		if err != nil {
			return err.Error()
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(s.patience))
		_, _ = conn.Write(raw) // it may have closed before it read everything
		closeWrite(conn)
		text, err := io.ReadAll(conn)
		return s.judgeText(p, string(text), err)
	}}
}

// closeWrite says that nothing more comes.
func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the other side may have ended it
	}
}

// calling makes calls of gRPC without a token that counts, and then one that is in order but
// for that. None is served.
func (s *siege) calling(p *port, streams []stream) attempt {
	return attempt{fmt.Sprintf("calls %q", streams), func() string {
		answers, err := overHTTP2(&p.door, true, streams, s.patience)
		if err != nil {
			return err.Error()
		}
		for _, a := range answers {
			if problem := s.judgeCall(a); problem != "" {
				return problem
			}
		}
		return ""
	}}
}

// leaving sends a part of a request and is gone.
func (s *siege) leaving(a *attack) attempt {
	text, _ := a.raw()
	text = text[:a.IntN(len(text)+1)]
	return attempt{fmt.Sprintf("leaves after %q", text), func() string {
		conn, err := dial(a.door, a.secure, "http/1.1")
		if err != nil {
			return err.Error()
		}
		_ = conn.SetDeadline(time.Now().Add(s.patience))
		_, _ = io.WriteString(conn, text) // it may have closed before it read everything
		_ = conn.Close()
		s.count("left")
		return ""
	}}
}

// overHTTP2 sends a request over HTTP/2 to who serves gRPC.
func (s *siege) overHTTP2(p *port, a *attack) string {
	wait := s.patience
	if !a.sane {
		wait = shortness // the end of the connection frees what waits
	}
	answers, err := overHTTP2(&p.door, true, a.streams(), wait)
	if errors.Is(err, errSilence) && !a.sane {
		s.count("waits for the rest or for more")
		err = nil
	}
	if err != nil {
		return err.Error()
	}
	for _, x := range answers {
		if problem := s.judgeCall(x); problem != "" {
			return problem
		}
	}
	// Who speaks only gRPC ends a connection whose trailers come after the refusal of their call.
	if a.sane && a.trailer == nil && len(answers) < 2 {
		return fmt.Sprintf("a request that is well formed, or the one after it, got no answer: %+v", answers)
	}
	return ""
}

// overHTTP1 sends a request of HTTP/1. A well-formed one is answered, and so is who comes next
// on the connection, unless the server has said that it ends. After anything else the client
// waits until nothing has come for a moment, says that no more comes, and the connection ends.
func (s *siege) overHTTP1(p *port, a *attack) string {
	text, methods := a.raw()
	if a.sane {
		answers, err := overHTTP1(&p.door, a.secure, text, methods, s.patience, s.patience)
		if err != nil {
			return fmt.Sprintf("%v after %v", err, answers)
		}
		return s.judgeSane(p, answers)
	}
	conn, err := dial(&p.door, a.secure, "http/1.1")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(s.patience))
	_, _ = io.WriteString(conn, text) // it may have closed before it read everything
	before, err := untilQuiet(conn)
	var after []byte
	if silence(err) != nil {
		closeWrite(conn)
		_ = conn.SetDeadline(time.Now().Add(s.patience))
		after, err = io.ReadAll(conn)
	}
	if bytes.Contains(after, []byte("HTTP/1.1 503 ")) {
		// Who has left is told so by some handlers, and hears it if she has not.
		s.count("told that she has left")
		after = bytes.ReplaceAll(after, []byte("HTTP/1.1 503 "), []byte("HTTP/1.1 499 "))
	}
	return s.judgeText(p, string(before)+string(after), err)
}

// untilQuiet reads until nothing comes for a moment, or no more ever will.
func untilQuiet(conn net.Conn) (text []byte, err error) {
	part := make([]byte, 4<<10)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(shortness))
		n, err := conn.Read(part)
		text = append(text, part[:n]...)
		if err != nil {
			return text, err
		}
	}
}

func (s *siege) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *siege) report(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, problem)
}

// violations are what was wrong.
func (s *siege) violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// summary says what happened, in one line each.
func (s *siege) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(s.counts)) {
		lines = append(lines, fmt.Sprintf("%6d %s", s.counts[k], k))
	}
	return strings.Join(lines, "\n")
}
