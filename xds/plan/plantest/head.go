package plantest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// patience is the maximum time that an Envoy on this machine needs for one request.
const patience = 30 * time.Second

// Listen runs a server that answers the first request of each connection with 101. It returns
// the port, and what the server has read of each request up to the empty line.
func Listen(t testing.TB) (port uint32, heads <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			head, err := readHead(conn)
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				select {
				case got <- head:
				case <-ctx.Done():
				}
			}
			_ = conn.Close() // only the head is needed
		}
	}()
	t.Cleanup(func() {
		stop()
		_ = ln.Close()
		<-done
	})
	return uint32(ln.Addr().(*net.TCPAddr).Port), got
}

// Send writes a request to a port unchanged. It returns the head of the request as a server of
// [Listen] received it.
func Send(t testing.TB, port uint32, request string, heads <-chan string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		head, _ := readHead(conn) // an empty head tells as much
		answered <- head
	}()
	select {
	case head := <-heads:
		_ = conn.Close()
		<-answered
		return head
	case answer := <-answered:
		// The server may have received the request and be about to report it.
		if strings.HasPrefix(answer, "HTTP/1.1 101") {
			return <-heads
		}
		t.Fatalf("the request was not passed on, but answered: %q", answer)
	}
	return ""
}

func readHead(conn net.Conn) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	var head strings.Builder
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return head.String(), err
		}
		if line == "\r\n" {
			return head.String(), nil
		}
		head.WriteString(line)
	}
}
