package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
)

// What one answer may be. Records are a few hundred bytes, a section of INFO a
// few thousand; the longest answer is the list of the slots of a cluster, of
// which there are at most 16384.
const (
	maxAnswer = 4 << 20 // bytes
	maxString = 1 << 20 // bytes of one string
	maxItems  = 1 << 18 // values in all aggregates
	maxDepth  = 8       // aggregates inside each other
	maxText   = 512     // bytes of an error's text that are looked at
)

var errTooLarge = errors.New("redis announced an answer that is too large")

// limited refuses answers that cannot be meant. The library allocates what a
// server announces before any of it has arrived and follows any nesting, partly
// on goroutines that nobody recovers, so a few bytes could end the process. good, if
// set, judges the texts of errors; of a longer one its first maxText bytes.
func limited(next dial, good func(text string) bool) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := &limitedConn{Conn: conn, answers: answers{left: maxAnswer, good: good}}
		if s := socketOf(conn); s != nil {
			return &limitedSocket{limitedConn: l, socket: s}, nil
		}
		return l, nil
	}
}

// socketOf is the socket that a connection reads from itself, or what stands for
// it with TLS in between, where what arrives need not be an answer.
func socketOf(conn net.Conn) syscall.Conn {
	if k, ok := conn.(*keptConn); ok {
		if s, ok := k.Conn.(syscall.Conn); ok {
			return s
		}
	}
	s, _ := conn.(syscall.Conn)
	return s
}

// limitedConn reads along.
type limitedConn struct {
	net.Conn
	answers answers
}

// Read implements [net.Conn].
func (l *limitedConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.answers.follow(p[:n]) {
		_ = l.Conn.Close() // what comes next cannot be told apart any more
		return 0, errTooLarge
	}
	return n, err
}

// limitedSocket lets the library see whether a connection that was idle has been
// closed by the server.
type limitedSocket struct {
	*limitedConn
	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (l *limitedSocket) SyscallConn() (syscall.RawConn, error) { return l.socket.SyscallConn() }

type answerState uint8

const (
	atStart  answerState = iota // of a value
	inNumber                    // the length of a string or an aggregate
	inNil                       // what stands in the place of such a length: -1
	inEnd                       // the last byte of such a line
	inLine                      // a value without a length
	inString
)

// answers follows the headers of a stream of answers (RESP2 and RESP3). A length is
// digits, or -1 for nothing at all where RESP2 has that, and no other spelling: where the
// library and this reader take one length for two, what comes next is followed by nobody.
type answers struct {
	state  answerState
	kind   byte
	number int // -1 for nothing at all
	digits int // that number has had
	skip   int // bytes of a string that are still to come
	left   int // bytes that this answer may still have
	items  int // that this answer has announced
	depth  int
	open   [maxDepth]int // values that are still to come in each open aggregate

	good func(text string) bool // nil takes any error
	text []byte                 // of the error that is coming
}

// follow reports whether what has come so far is within the bounds.
func (a *answers) follow(p []byte) bool {
	for len(p) > 0 {
		n := 1
		if a.state == inString {
			n = min(a.skip, len(p))
		}
		a.note(p[:n])
		if a.left -= n; a.left < 0 || !a.step(p[0], n) {
			return false
		}
		p = p[n:]
	}
	return true
}

// note keeps what is part of an error's text.
func (a *answers) note(p []byte) {
	if a.good != nil && (a.kind == '-' && a.state == inLine || a.kind == '!' && a.state == inString) {
		a.text = append(a.text, p[:min(len(p), maxText-len(a.text))]...)
	}
}

// judge ends an error.
func (a *answers) judge() bool {
	if a.good == nil || a.kind != '-' && a.kind != '!' {
		return true
	}
	text := strings.TrimRight(string(a.text), "\r\n")
	a.text = a.text[:0]
	return a.good(text)
}

// step takes the byte c, or n bytes of a string.
func (a *answers) step(c byte, n int) bool {
	switch a.state {
	case atStart:
		if c == '(' { // a big number: nobody asks for one, and reading it takes quadratic time
			return false
		}
		a.begin(c)
	case inNumber:
		return a.digit(c)
	case inNil:
		a.state, a.number = inNumber, -1
		a.digits = 1
		return c == '1'
	case inEnd:
		return c == '\n' && a.endNumber()
	case inLine:
		if c == '\n' {
			good := a.judge()
			a.complete()
			return good
		}
	case inString:
		if a.skip -= n; a.skip == 0 {
			good := a.judge()
			a.complete()
			return good
		}
	}
	return true
}

// digit takes a byte of a length.
func (a *answers) digit(c byte) bool {
	switch {
	case c == '\r':
		a.state = inEnd
		return a.digits > 0
	case c == '-' && a.digits == 0 && (a.kind == '$' || a.kind == '*'):
		a.state = inNil
		return true
	case c < '0' || c > '9' || a.number < 0:
		return false
	}
	a.digits++
	a.number = a.number*10 + int(c-'0')
	return a.number <= maxString
}

func (a *answers) begin(kind byte) {
	a.kind, a.number, a.digits = kind, 0, 0
	switch kind {
	case '$', '!', '=', '*', '%', '~', '>', '|':
		a.state = inNumber
	default:
		a.state = inLine
	}
}

// endNumber enters a string or an aggregate.
func (a *answers) endNumber() bool {
	n := a.number
	if n < 0 {
		a.complete()
		return true
	}
	switch a.kind {
	case '$', '!', '=':
		a.state, a.skip = inString, n+len("\r\n")
		return true
	case '%':
		n *= 2
	case '|': // attributes are followed by what they belong to
		n = 2*n + 1
	}
	if a.items += n; a.items > maxItems {
		return false
	}
	if n == 0 {
		a.complete()
		return true
	}
	if a.depth == maxDepth {
		return false
	}
	a.open[a.depth] = n
	a.depth++
	a.state = atStart
	return true
}

// complete ends a value, and the aggregates whose last one it was.
func (a *answers) complete() {
	a.state = atStart
	for a.depth > 0 {
		if a.open[a.depth-1]--; a.open[a.depth-1] > 0 {
			return
		}
		a.depth--
	}
	a.left, a.items = maxAnswer, 0
}
