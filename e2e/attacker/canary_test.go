package attacker_test

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
)

// canary is an honest conversation with a port; the error says what is not as it should be.
func (p *port) canary(patience time.Duration) error {
	if p.commands {
		return p.command(patience)
	}
	text := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", p.next, p.host)
	answers, err := overHTTP1(&p.door, p.encrypts(false), text, []string{http.MethodGet}, patience, patience)
	if err != nil || len(answers) != 1 || answers[0].status != p.status {
		return fmt.Errorf("%s: %w: %+v, want %d", p.name, orChanged(err), answers, p.status)
	}
	if !p.calls {
		return nil
	}
	// A call that lacks nothing but a token.
	ads := stream{header: []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: p.host}, {Name: ":path", Value: deltaPath},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}}
	answers, err = overHTTP2(&p.door, true, []stream{ads}, patience)
	if err != nil || len(answers) != 1 || answers[0].grpc != unauthenticated {
		return fmt.Errorf("%s: %w: %+v, want the status %s of gRPC", p.name, orChanged(err), answers, unauthenticated)
	}
	return nil
}

// speaks checks that HTTP/2 is spoken over TLS where its attacks are made, and nowhere else.
func (p *port) speaks() error {
	if p.secure == 0 {
		return nil
	}
	pool, err := p.roots()
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", p.address(true), &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "x"}})
	if err == nil {
		defer func() { _ = conn.Close() }()
	}
	if h2 := err == nil && conn.ConnectionState().NegotiatedProtocol == "h2"; h2 != p.calls {
		return fmt.Errorf("%s speaks HTTP/2: %t, want %t", p.name, h2, p.calls)
	}
	return nil
}

// unauthenticated is the status of gRPC for a caller whom nobody knows.
const unauthenticated = "16"

// command asks a Redis for a sign of life, which it gives to nobody without the password.
func (p *port) command(patience time.Duration) error {
	conn, err := dialRaw(&p.door, false)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "*1\r\n$4\r\nPING\r\n") // that it was not sent shows below
	answer := make([]byte, 7)
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasPrefix(string(answer), "-NOAUTH") {
		return fmt.Errorf("%s: %w: answered %q", p.name, orChanged(err), answer)
	}
	return nil
}

// errChanged says that an answer came, and another one than before.
var errChanged = errors.New("not the answer that it was")

func orChanged(err error) error { return cmp.Or(err, errChanged) }
