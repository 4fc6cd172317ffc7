package embedded

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"strconv"
	"time"
)

const (
	// attempts bounds the failed requests before the password.
	attempts = 3
	// idle ends silent connections. Clients close their own after half an hour, so that
	// they never use a connection that has just ended.
	idle = 40 * time.Minute
	// writeTimeout ends a connection whose client does not read.
	writeTimeout = 5 * time.Second
)

// role is what a password permits.
type role uint8

const (
	nobody role = iota
	reader
	writer
)

// session is one connection.
type session struct {
	s    *Server
	conn net.Conn // nil in tests
	in   *requests
	out  *bufio.Writer

	role   role
	failed int
}

// errEnd ends a connection in good order.
var errEnd = errors.New("the connection ends")

// serve answers requests until the connection ends. A panic ends only this connection.
func (c *session) serve() {
	defer func() {
		if p := recover(); p != nil {
			c.s.o.Log.Error("a connection of the embedded cache panicked", "panic", p)
		}
		c.s.conns.remove(c.conn)
		_ = c.conn.Close() // it may have been closed already to make room
	}()
	if c.conn.SetDeadline(time.Now().Add(c.s.o.Handshake)) != nil {
		return
	}
	for c.step() == nil {
	}
}

// step answers one request.
func (c *session) step() error {
	b := beforePassword
	if c.role != nobody {
		b = afterPassword
	}
	args, err := c.in.next(b)
	if errors.Is(err, errProtocol) {
		c.fail("ERR Protocol error")
		_ = c.flush() // the connection ends anyway
	}
	if err != nil {
		return err
	}
	// A long answer is written before the flush, so the time limit for it starts here.
	if c.conn != nil && c.role != nobody && c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return errEnd
	}
	if err := c.answer(args); err != nil {
		_ = c.flush() // the connection ends anyway
		return err
	}
	if c.in.in.Buffered() > 0 {
		return nil // more requests of a pipeline are buffered; they are answered together
	}
	return c.flush()
}

// flush sends the answers and sets the deadlines for the next request.
func (c *session) flush() error {
	if c.conn != nil && c.role != nobody {
		if err := c.conn.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
	}
	return c.out.Flush()
}

// answer runs one command. No other commands exist.
func (c *session) answer(args [][]byte) error {
	name, args := args[0], args[1:]
	if is(name, "AUTH") && (len(args) == 1 || len(args) == 2) {
		return c.authenticate(args[len(args)-1])
	}
	if c.role == nobody {
		// This includes HELLO: clients then continue with AUTH, in the older version of the
		// protocol.
		return c.refuse("NOAUTH Authentication required.")
	}
	if c.s.fault != nil {
		c.s.fault(name)
	}
	switch {
	case is(name, "GET") && len(args) == 1:
		value, ok := c.s.get(args[0])
		if !ok {
			c.text("$-1\r\n")
			return nil
		}
		c.bulk(value)
	case is(name, "GETRANGE") && len(args) == 3:
		c.getRange(args[0], args[1], args[2])
	case is(name, "INFO"):
		c.bulk([]byte("run_id:" + c.s.id + "\r\nrole:master\r\n"))
	case is(name, "PING") && len(args) <= 1:
		c.pong(args)
	case is(name, "QUIT"):
		c.text("+OK\r\n")
		return errEnd
	case c.role != writer:
		c.fail("NOPERM this user may only read")
	default:
		c.write(name, args)
	}
	return nil
}

// write runs the commands that only the control plane may use.
func (c *session) write(name []byte, args [][]byte) {
	switch {
	case is(name, "SET") && len(args) == 2:
		if !c.s.set(string(args[0]), bytes.Clone(args[1])) { //nolint:gosec // there are two
			c.fail("OOM there is no room for this key")
			return
		}
		c.text("+OK\r\n")
	default:
		c.fail("ERR unknown command")
	}
}

// getRange answers the beginning of a value. Readers use it to read no more than they can
// use. A missing key gives an empty text.
func (c *session) getRange(key, first, end []byte) {
	last, err := strconv.Atoi(string(end))
	if string(first) != "0" || err != nil || last < 0 {
		c.fail("ERR only ranges from the beginning are served")
		return
	}
	value, _ := c.s.get(key)
	if last < len(value)-1 {
		value = value[:last+1]
	}
	c.bulk(value)
}

func (c *session) pong(args [][]byte) {
	if len(args) == 1 {
		c.bulk(args[0])
		return
	}
	c.text("+PONG\r\n")
}

// authenticate compares digests in constant time, so that the time reveals nothing about a
// password, not even its length. User names are ignored.
func (c *session) authenticate(password []byte) error {
	got := sha256.Sum256(password)
	writes := subtle.ConstantTimeCompare(got[:], c.s.writerSum[:])
	reads := subtle.ConstantTimeCompare(got[:], c.s.readerSum[:])
	switch {
	case writes == 1:
		c.role = writer
	case reads == 1:
		c.role = reader
	default:
		return c.refuse("WRONGPASS invalid password")
	}
	if c.conn != nil && !c.s.conns.admit(c.conn, c.role) {
		c.fail("ERR max number of clients reached")
		return errEnd
	}
	c.text("+OK\r\n")
	return nil
}

// refuse answers with an error, and ends the connection after several of them.
func (c *session) refuse(message string) error {
	c.fail(message)
	if c.failed++; c.failed >= attempts {
		return errEnd
	}
	return nil
}

// fail, text and bulk ignore write errors of out. flush reports them.

func (c *session) fail(message string) { c.text("-" + message + "\r\n") }

func (c *session) text(s string) { _, _ = c.out.WriteString(s) }

func (c *session) bulk(b []byte) {
	head := append(c.out.AvailableBuffer(), '$')
	head = append(strconv.AppendInt(head, int64(len(b)), 10), "\r\n"...)
	_, _ = c.out.Write(head)
	_, _ = c.out.Write(b)
	c.text("\r\n")
}

// is compares the name of a command, ignoring case.
func is(name []byte, want string) bool { return bytes.EqualFold(name, []byte(want)) }
