package redisconn

import (
	"context"
	"errors"
	"net"
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
)

var errTooLarge = errors.New("redis announced an answer that is too large")

// limited refuses answers that cannot be meant. The library allocates what a
// server announces before any of it has arrived and follows any nesting, partly
// on goroutines that nobody recovers, so a few bytes could end the process.
func limited(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := &limitedConn{Conn: conn, answers: answers{left: maxAnswer}}
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
	inLine                      // a value without a length
	inString
)

// answers follows the headers of a stream of answers (RESP2 and RESP3).
type answers struct {
	state  answerState
	kind   byte
	number int
	skip   int // bytes of a string that are still to come
	left   int // bytes that this answer may still have
	items  int // that this answer has announced
	depth  int
	open   [maxDepth]int // values that are still to come in each open aggregate
}

// follow reports whether what has come so far is within the bounds.
func (a *answers) follow(p []byte) bool {
	for len(p) > 0 {
		n := 1
		if a.state == inString {
			n = min(a.skip, len(p))
		}
		if a.left -= n; a.left < 0 || !a.step(p[0], n) {
			return false
		}
		p = p[n:]
	}
	return true
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
		switch {
		case c == '\n':
			return a.endNumber()
		case c >= '0' && c <= '9':
			a.number = a.number*10 + int(c-'0')
			return a.number <= maxString
		case c == '-': // announces nothing
			a.state = inLine
		}
	case inLine:
		if c == '\n' {
			a.complete()
		}
	case inString:
		if a.skip -= n; a.skip == 0 {
			a.complete()
		}
	}
	return true
}

func (a *answers) begin(kind byte) {
	a.kind, a.number = kind, 0
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
