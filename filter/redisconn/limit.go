package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
)

// Bounds of one answer. Records are a few hundred bytes, a section of INFO a few thousand.
// The longest answer is the list of the slots of a cluster, which has at most 16384.
const (
	maxAnswer = 4 << 20 // bytes
	maxString = 1 << 20 // bytes of one string
	maxItems  = 1 << 18 // values in all aggregates
	maxDepth  = 8       // aggregates inside each other
	maxText   = 512     // bytes of an error's text that are examined
)

var errTooLarge = errors.New("redis announced an answer that is too large")

// limited refuses answers that are too large to be genuine. The library allocates what a
// server announces before any of it has arrived, and follows any nesting, partly on
// goroutines without a recover. A few bytes could therefore end the process. good, if set,
// judges the texts of errors; it gets at most maxText bytes.
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

// socketOf returns the socket that a connection reads from. With TLS it returns the stand-in
// of [keptConn], because bytes that arrive on the socket need not be an answer.
func socketOf(conn net.Conn) syscall.Conn {
	if k, ok := conn.(*keptConn); ok {
		if s, ok := k.Conn.(syscall.Conn); ok {
			return s
		}
	}
	s, _ := conn.(syscall.Conn)
	return s
}

// limitedConn follows the answers that it reads.
type limitedConn struct {
	net.Conn
	answers answers
}

// Read implements [net.Conn].
func (l *limitedConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.answers.follow(p[:n]) {
		_ = l.Conn.Close() // the end of this answer is unknown, so later ones cannot be read
		return 0, errTooLarge
	}
	return n, err
}

// limitedSocket lets the library see whether the server has closed an idle connection.
type limitedSocket struct {
	*limitedConn
	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (l *limitedSocket) SyscallConn() (syscall.RawConn, error) { return l.socket.SyscallConn() }

type answerState uint8

const (
	atStart  answerState = iota // before a value
	inNumber                    // the length of a string or an aggregate
	inNil                       // -1 in place of such a length
	inEnd                       // the last byte of such a line
	inLine                      // a value without a length
	inString
)

// answers follows the headers of a stream of answers (RESP2 and RESP3). A length consists of
// digits, or is -1 for a nil value where RESP2 allows it. Other spellings are refused: if
// the library and this reader understood a length differently, nobody would check what
// follows.
type answers struct {
	state  answerState
	kind   byte
	number int // -1 for nil
	digits int // digits of number so far
	skip   int // bytes of a string that are still to come
	left   int // bytes that this answer may still have
	items  int // values that this answer has announced
	depth  int
	open   [maxDepth]int // values that are still to come in each open aggregate

	good func(text string) bool // nil accepts any error
	text []byte                 // text of the current error
}

// follow reports whether the answers so far are within the bounds.
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

// note keeps the bytes that belong to an error's text.
func (a *answers) note(p []byte) {
	if a.good != nil && (a.kind == '-' && a.state == inLine || a.kind == '!' && a.state == inString) {
		a.text = append(a.text, p[:min(len(p), maxText-len(a.text))]...)
	}
}

// judge reports whether the error that just ended is good.
func (a *answers) judge() bool {
	if a.good == nil || a.kind != '-' && a.kind != '!' {
		return true
	}
	text := strings.TrimRight(string(a.text), "\r\n")
	a.text = a.text[:0]
	return a.good(text)
}

// step consumes the byte c, or n bytes of a string.
func (a *answers) step(c byte, n int) bool {
	switch a.state {
	case atStart:
		if c == '(' { // a big number: the client never asks for one, and parsing takes quadratic time
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

// digit consumes one byte of a length.
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
	case '|': // attributes precede the value that they belong to
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

// complete ends a value, and every aggregate that it is the last value of.
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
