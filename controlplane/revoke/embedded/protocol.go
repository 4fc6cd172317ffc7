package embedded

import (
	"bufio"
	"errors"
	"io"
)

// bounds are the limits of one request.
type bounds struct {
	// args bounds the number of arguments, including the command's name. bytes bounds the
	// length of all of them together.
	args, bytes int
}

var (
	// beforePassword allows a password and little else.
	beforePassword = bounds{args: 8, bytes: 512}
	// afterPassword allows the largest record.
	afterPassword = bounds{args: 8, bytes: 48 << 10}
)

const (
	// lineBuffer is the buffer size of a connection. Lines are far shorter.
	lineBuffer = 4 << 10
	// maxDigits bounds the digits of a length.
	maxDigits = 7
	// keepText is the largest argument buffer that a connection keeps for the next request.
	keepText = 8 << 10
)

// errProtocol ends a connection, because the start of the next request is unknown.
var errProtocol = errors.New("protocol error")

// requests reads commands as clients send them: arrays of bulk strings. It refuses lines
// without an array (inline commands) and every other type. Each length is compared with a
// bound before it is used, so the memory does not depend on what a client claims. Source:
// Redis serialization protocol specification, "Sending commands".
type requests struct {
	in   *bufio.Reader
	text []byte
	ends []int
	args [][]byte
}

// next returns the arguments of the next request, at least one. They are valid until the
// next call.
func (r *requests) next(b bounds) ([][]byte, error) {
	if cap(r.text) > keepText {
		r.text = nil
	}
	n, err := r.length('*')
	if err != nil {
		return nil, err
	}
	if n < 1 || n > b.args {
		return nil, errProtocol
	}
	r.text, r.ends, r.args = r.text[:0], r.ends[:0], r.args[:0]
	for range n {
		size, err := r.length('$')
		if err != nil {
			return nil, err
		}
		if size > b.bytes-len(r.text) {
			return nil, errProtocol
		}
		if err := r.bulk(size); err != nil {
			return nil, err
		}
		r.ends = append(r.ends, len(r.text))
	}
	begin := 0
	for _, end := range r.ends {
		r.args = append(r.args, r.text[begin:end:end])
		begin = end
	}
	return r.args, nil
}

// length reads a line that consists of a type byte and a number without a sign or leading
// zeros.
func (r *requests) length(kind byte) (int, error) {
	first, err := r.in.ReadByte()
	if err != nil {
		return 0, err
	}
	if first != kind {
		return 0, errProtocol
	}
	n, digits, leading := 0, 0, false
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if c == '\r' {
			break
		}
		if c < '0' || c > '9' || leading || digits >= maxDigits {
			return 0, errProtocol
		}
		leading = digits == 0 && c == '0'
		n, digits = n*10+int(c-'0'), digits+1
	}
	if end, err := r.in.ReadByte(); err != nil || end != '\n' || digits == 0 {
		return 0, errors.Join(errProtocol, err)
	}
	return n, nil
}

// bulk appends size bytes to the text and reads the end of their line.
func (r *requests) bulk(size int) error {
	begin := len(r.text)
	if need := begin + size; need > cap(r.text) {
		grown := make([]byte, begin, max(need, 2*cap(r.text)))
		copy(grown, r.text)
		r.text = grown
	}
	r.text = r.text[:begin+size]
	if _, err := io.ReadFull(r.in, r.text[begin:]); err != nil {
		return err
	}
	var end [2]byte
	if _, err := io.ReadFull(r.in, end[:]); err != nil {
		return err
	}
	if end != [2]byte{'\r', '\n'} {
		return errProtocol
	}
	return nil
}
