// Package syslog sends events of the audit log to collectors that speak syslog: messages of RFC 5424, over
// TCP with octet counting (RFC 6587 section 3.4.1), or each in a datagram (RFC 5426).
//
// Syslog has no answers. What was written to a connection may be lost with it, and a datagram may be lost
// anyway: who must not lose anything uses a webhook.
package syslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
)

// DefaultPort is the port for audit logs. Source: requirement "Limits".
const DefaultPort = 8071

const (
	connectTimeout = 5 * time.Second
	writeTimeout   = 15 * time.Second
	// resolveEvery is for how long datagrams go to the address that a name once had: nothing else tells that
	// the collector has moved.
	resolveEvery = time.Minute
)

// Target is where messages go.
type Target struct {
	// Network is tcp or udp.
	Network, Address string
}

// Parse reads a target such as tcp://siem.example.com:8071.
func Parse(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "udp" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("%q is not tcp://host:port or udp://host:port", text)
	}
	port := u.Port()
	if port == "" {
		port = strconv.Itoa(DefaultPort)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Target{}, fmt.Errorf("%q has no valid port", text)
	}
	return Target{u.Scheme, net.JoinHostPort(u.Hostname(), port)}, nil
}

// String is what Parse reads.
func (t Target) String() string { return t.Network + "://" + t.Address }

// facility is that of audit logs.
const facility = 13

// Severities of RFC 5424.
const (
	warning = 4
	notice  = 5
	info    = 6
)

// Message is an event as a message whose text is its line in CEF.
func Message(o audit.Origin, e *audit.Event, s *audit.Signer) []byte {
	severity := warning
	switch a := e.Administration; {
	case a != nil && a.Class != audit.Refusal, e.Outcome == audit.Success:
		severity = info
	case e.Outcome == audit.InvalidPassword, e.Outcome == audit.NotFound:
		severity = notice
	}
	return fmt.Appendf(nil, "<%d>1 %s %s meshgate %d audit - %s", facility*8+severity, e.Time.UTC().Format("2006-01-02T15:04:05.000Z"),
		header(o.Host), os.Getpid(), o.CEF(e, s))
}

// header is a host as a field of the header: printable ASCII, at most 255 characters.
func header(host string) string {
	clean := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '-'
		}
		return r
	}, host)
	if clean == "" {
		return "-"
	}
	return clean[:min(len(clean), 255)]
}

// Conn is a connection to a target, which is made when it is needed. It belongs to one goroutine.
type Conn struct {
	Target Target
	// Dial makes connections; nil is that of the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	conn net.Conn
	// made is when conn was made.
	made time.Time
	// refused is what the host of the receiver has answered to datagrams of a Send before; nil if it has not.
	refused error
}

// Dropped is the error of datagrams that are known not to have arrived, after all were tried.
type Dropped struct {
	// Messages is how many of them could not be written, and one more if the host of the receiver has refused
	// any since the last Send.
	Messages int
	// Err is why the first of them is lost.
	Err error
}

// Error implements error.
func (d *Dropped) Error() string {
	return fmt.Sprintf("%d datagrams are lost: %v", d.Messages, d.Err)
}

// Unwrap returns the cause.
func (d *Dropped) Unwrap() error { return d.Err }

// Send sends messages. If it fails, some of them may have arrived; over UDP none has been tried unless the error is
// [Dropped].
func (c *Conn) Send(ctx context.Context, messages [][]byte) error {
	if c.conn != nil && c.gone() {
		c.Close()
	}
	if c.conn == nil {
		dial := c.Dial
		if dial == nil {
			dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
		}
		conn, err := dial(ctx, c.Target.Network, c.Target.Address)
		if err != nil {
			return err
		}
		c.conn, c.made = conn, time.Now()
	}
	err := c.write(ctx, messages)
	// A socket for datagrams outlives a refusal: it is where the next one will be read.
	if err != nil && (c.Target.Network == "tcp" || !errors.Is(err, syscall.ECONNREFUSED)) {
		c.Close()
	}
	return err
}

func (c *Conn) write(ctx context.Context, messages [][]byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // one that has none fails at the write
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-ended // the connection may be closed next, or used again
		}
	}()
	if c.Target.Network == "tcp" {
		var all []byte
		for _, m := range messages {
			all = append(fmt.Appendf(all, "%d ", len(m)), m...)
		}
		_, err := c.conn.Write(all)
		return err
	}
	dropped := Dropped{}
	if c.refused != nil {
		dropped, c.refused = Dropped{Messages: 1, Err: c.refused}, nil
	}
	for _, m := range messages {
		if _, err := c.conn.Write(m); err != nil {
			if dropped.Messages++; dropped.Err == nil {
				dropped.Err = err
			}
		}
	}
	if dropped.Messages == 0 {
		return nil
	}
	return &dropped
}

// gone reports whether the receiver has closed the connection: it sends nothing, so there is nothing to
// read but the end. Without this look, the first messages after the end would be written to nobody. A socket for
// datagrams is gone when its name has to be looked up anew. The look tells of it that what was written before was
// refused; with one datagram a minute, nobody else would ever hear of that.
func (c *Conn) gone() bool {
	err := ending(c.conn)
	if c.Target.Network == "tcp" {
		return err != nil
	}
	if err != nil && !errors.Is(err, io.EOF) { // an empty datagram ends nothing
		c.refused = err
	}
	return time.Since(c.made) >= resolveEvery
}

// ending is the error of a read at this moment, [io.EOF] at the end and nil if there is nothing to read. A read with
// a deadline could miss what is there: it does not even look if the deadline passes before it begins.
func ending(conn net.Conn) error {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var failed error
	if err := raw.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), make([]byte, 1))
		return true
	}); err != nil {
		return err
	}
	switch {
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.EINTR):
		return nil
	case failed != nil:
		return os.NewSyscallError("read", failed)
	case n == 0:
		return io.EOF
	}
	return nil
}

// Close closes the connection; the next message makes another one.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is lost that was not lost before
		c.conn = nil
	}
}
