package attacker_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/http2"
)

// hello is the first record of a client of TLS that goes on to speak a protocol. Its keys
// are others in each run, its form is the same.
func hello(protocol string) []byte {
	client, server := net.Pipe()
	var sent []byte
	var work sync.WaitGroup
	work.Go(func() {
		head := make([]byte, 5)
		if _, err := server.Read(head); err == nil {
			rest := make([]byte, binary.BigEndian.Uint16(head[3:]))
			if n, err := server.Read(rest); err == nil {
				sent = append(head, rest[:n]...)
			}
		}
		_ = server.Close()
	})
	_ = tls.Client(client, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{protocol}}).Handshake() // it is cut off
	_ = client.Close()
	work.Wait()
	return sent
}

// noise is bytes of no protocol.
func noise(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// greetings are what somebody says who does not speak what a port speaks, or badly.
func greetings(r *rand.Rand) []byte {
	h := hello([]string{"http/1.1", "h2", "x"}[r.IntN(3)])
	switch r.IntN(14) {
	case 0:
		return noise(r, 1+r.IntN(1<<16))
	case 1:
		return h[:r.IntN(len(h))]
	case 2: // announces more, or less, than it is
		binary.BigEndian.PutUint16(h[3:], uint16(r.Uint32()))
		return h
	case 3: // one bit is another
		h[r.IntN(len(h))] ^= 1 << r.IntN(8)
		return h
	case 4: // in records of one byte
		var out []byte
		for _, b := range h[5:] {
			out = append(out, 0x16, 3, 1, 0, 1, b)
		}
		return out
	case 5: // a hello that has no end
		return append([]byte{0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, noise(r, 1<<17)...)
	case 6: // records that say nothing
		return bytes.Repeat([]byte{0x16, 3, 1, 0, 0}, 20_000)
	case 7: // alerts, then noise
		return append(bytes.Repeat([]byte{0x15, 3, 3, 0, 2, 1, 90}, 1000), noise(r, 100)...)
	case 8: // application data before anything, then a hello
		return append(append([]byte{0x17, 3, 3, 0, 4}, noise(r, 4)...), h...)
	case 9: // a hello, and the noise of a second flight
		return append(h, noise(r, 1+r.IntN(1<<15))...)
	case 10: // SSL 2
		return append([]byte{0x80, 0x2e, 1, 0, 2}, noise(r, 43)...)
	case 11:
		return append([]byte(http2.ClientPreface), frames(r)...)
	case 12:
		return []byte(command(r))
	}
	return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat(strings.Repeat("a", 1000)+": b\r\n", 1+r.IntN(300)))
}

// command is one of Redis, or something like it.
func command(r *rand.Rand) string {
	bulk := func(parts ...string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(parts))
		for _, p := range parts {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(p), p)
		}
		return b.String()
	}
	number := []string{"-1", "0", "1", "9", "2147483647", "9223372036854775808", "-9223372036854775808", "00000001", "+1", "1e9", ""}[r.IntN(11)]
	choices := []string{
		bulk("AUTH", "guess"), bulk("AUTH", "default", "guess"), bulk("AUTH", strings.Repeat("x", 600)), bulk("GET", "a"), bulk("SET", "a", "b"), bulk("CLIENT", "TRACKING", "ON"),
		bulk("EVAL", "return 1", "0"), bulk("CONFIG", "GET", "*"), bulk("HELLO", "3", "AUTH", "default", "guess"), bulk("HELLO", "3"), bulk("SHUTDOWN"), bulk("FLUSHALL"), bulk("\x00\xff"), bulk(""),
		"*" + number + "\r\n", "*1\r\n$" + number + "\r\n", "$" + number + "\r\nx\r\n", "*2\r\n$4\r\nAUTH\r\n$" + number + "\r\nx\r\n",
		strings.Repeat("*1\r\n", 10_000), strings.Repeat(bulk("PING"), 1000), "PING\r\n", "*" + strings.Repeat("1", 100_000), "*1\n$4\nPING\n", string(noise(r, 1+r.IntN(1000))),
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	var b strings.Builder
	for range 1 + r.IntN(5) {
		b.WriteString(choices[r.IntN(len(choices))])
	}
	return b.String()
}
