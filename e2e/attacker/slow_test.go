package attacker_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// slowness is a conversation with somebody who takes her time: what she begins with, and what
// she goes on with, five times a second. within is how long a port puts up with it.
type slowness struct {
	name        string
	open        func() (net.Conn, error)
	first, drip string
	within      time.Duration
}

// How long ports put up with somebody: until the header of a request is complete, until its
// body is, until a handshake is, until HTTP/2 begins, until a ping is answered. late is for a machine that
// has other things to do.
const (
	forHeader, forBody = 5 * time.Second, 30 * time.Second
	forHello           = 5 * time.Second
	forShaking         = 15 * time.Second
	forFirst           = 10 * time.Second
	forPing            = 15 * time.Second
	forPassword        = 2 * time.Second
	late               = 30 * time.Second
)

// slownesses are those that a port has to end.
func (p *port) slownesses() (out []slowness) {
	raw := func() (net.Conn, error) { return dialRaw(&p.door, p.secure != 0) }
	over := func(protocol string) func() (net.Conn, error) {
		return func() (net.Conn, error) { return dial(&p.door, true, protocol) }
	}
	add := func(name string, open func() (net.Conn, error), first, drip string, within time.Duration) {
		out = append(out, slowness{p.name + ": " + name, open, first, drip, within})
	}
	if p.commands {
		add("silent", raw, "", "", forPassword)
		add("a slow command", raw, "*2\r\n$4\r\nAUTH\r\n$400\r\n", "x", forPassword)
		return out
	}
	inside := raw
	if p.secure != 0 {
		inside = over("http/1.1")
		h := string(hello("http/1.1"))
		add("silent before TLS", raw, "", "", forHello)
		add("half a hello", raw, h[:len(h)/2], "", forHello)
		add("a slow hello", raw, "\x16\x03\x01\x20\x00\x01\x00\x1f\xfc", "x", forHello)
		add("a hello and no more", raw, h, "", forShaking)
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n", p.slowPath(), p.host)
	add("silent", inside, "", "", forHeader)
	add("a slow header", inside, "GET / HTTP/1.1\r\nHost: "+p.host+"\r\nX-A: ", "a", forHeader)
	add("a slow body", inside, head+"Content-Length: 100000\r\n\r\n{", " ", forBody)
	add("slow chunks", inside, head+"Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", forBody)
	if p.calls {
		add("no preface", over("h2"), "", "", forFirst)
		add("half a preface", over("h2"), http2.ClientPreface[:10], "", forFirst)
		add("a preface and no more", over("h2"), http2.ClientPreface+begun(false), "", forPing)
		add("half a call", over("h2"), http2.ClientPreface+begun(true), "", forPing)
	}
	return out
}

// begun is the beginning of a connection over HTTP/2: its settings, and the header of a call
// that lacks its end, if there is a call.
func begun(call bool) string {
	var out bytes.Buffer
	f := http2.NewFramer(&out, nil)
	_ = f.WriteSettings() // to memory, as what follows
	if call {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83, 0x87}})
	}
	return out.String()
}

// slowPath is one at which documents are read, if any is.
func (p *port) slowPath() string {
	for _, t := range p.targets {
		if t.name == "bootstrap" || t.name == "services" || t.name == "v2/portals" || t.name == "tokens/user" {
			return "/" + t.name
		}
	}
	return p.next
}

// endure holds one such conversation until the port ends it, and says what is wrong, or "".
func (s slowness) endure() string {
	conn, err := s.open()
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(s.within + late))
	_, _ = io.WriteString(conn, s.first) // that it has been ended shows when it is read
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(conn, s.drip) // likewise
			case <-ended:
				return
			}
		}
	})
	text, err := io.ReadAll(conn)
	close(ended)
	work.Wait()
	switch {
	case silence(err) != nil:
		return fmt.Sprintf("it was not ended in %s", s.within+late)
	case failure.MatchString(string(text)):
		return fmt.Sprintf("failed: %q", text)
	}
	return ""
}

// besetting is all slow conversations, each of its own goroutine.
type besetting struct {
	work  sync.WaitGroup
	mu    sync.Mutex
	wrong []string
	held  int
}

// beset begins all slow conversations with the ports.
func beset(ports []*port) *besetting {
	b := &besetting{}
	for _, p := range ports {
		for _, s := range p.slownesses() {
			b.held++
			b.work.Go(func() {
				if problem := s.endure(); problem != "" {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.wrong = append(b.wrong, s.name+": "+problem)
				}
			})
		}
	}
	return b
}

// end waits for the end of all and returns what was wrong.
func (b *besetting) end() string {
	b.work.Wait()
	return strings.Join(b.wrong, "\n")
}
