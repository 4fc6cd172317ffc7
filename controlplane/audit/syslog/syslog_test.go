package syslog

import (
	"bufio"
	"crypto/ed25519"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
)

// TestParse: targets are an address of TCP or UDP, by default at port 8071.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://siem.example.com": "tcp://siem.example.com:8071", "udp://10.0.0.1:514": "udp://10.0.0.1:514", "tcp://[::1]:601/": "tcp://[::1]:601", "udp://[fd00::1]": "udp://[fd00::1]:8071",
	} {
		if got, err := Parse(text); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "siem:8071", "http://siem", "tcp://", "tcp://siem:0", "tcp://siem:70000", "tcp://siem/path", "tcp://a@siem", "tcp://siem?x=y"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func signer(t *testing.T) *audit.Signer {
	t.Helper()
	keys := []ed25519.PrivateKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	return audit.NewSigner(func() []ed25519.PrivateKey { return keys })
}

// TestMessage: a message has the header of RFC 5424, and the signed line as its text.
func TestMessage(t *testing.T) {
	e := audit.Event{ID: "1", Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Method: audit.Basic, UserAgent: "a\nb"}
	o := audit.Origin{Vendor: "Meshgate", Host: "a host"}
	form := regexp.MustCompile(`^<(\d+)>1 2026-01-02T03:04:05\.678Z a-host meshgate \d+ audit - (.*)$`)
	for outcome, priority := range map[audit.Outcome]int{audit.Success: 13*8 + 6, audit.InvalidPassword: 13*8 + 5, audit.Locked: 13*8 + 4} {
		e.Outcome = outcome
		got := form.FindStringSubmatch(string(Message(o, &e, signer(t))))
		if got == nil || got[1] != strconv.Itoa(priority) || got[2] != string(o.CEF(&e, signer(t))) {
			t.Errorf("%s: %q", outcome, got)
		}
	}
}

// read reads messages by their count of octets.
func read(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	count, err := r.ReadString(' ')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSuffix(count, " "))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestConnectionThatEnds: messages are framed by their count, line breaks and all; when the receiver has
// closed the connection, the next messages go through a new one.
func TestConnectionThatEnds(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c := &Conn{Target: Target{"tcp", ln.Addr().String()}}
	defer c.Close()
	for range 3 {
		if err := c.Send(t.Context(), [][]byte{[]byte("first\nline"), []byte("zweite ü")}); err != nil {
			t.Fatal(err)
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		if a, b := read(t, r), read(t, r); a != "first\nline" || b != "zweite ü" {
			t.Errorf("%q, %q", a, b)
		}
		local := c.conn.LocalAddr().String()
		if err := c.Send(t.Context(), [][]byte{[]byte("same")}); err != nil || c.conn.LocalAddr().String() != local {
			t.Errorf("another connection: %v", err)
		}
		if got := read(t, r); got != "same" {
			t.Errorf("%q", got)
		}
		_ = conn.Close()
		for deadline := time.Now().Add(time.Minute); !c.gone(); {
			if time.Now().After(deadline) {
				t.Fatal("the end is not seen")
			}
		}
	}
	_ = ln.Close()
	if err := c.Send(t.Context(), [][]byte{[]byte("x")}); err == nil {
		t.Error("something was sent to nobody")
	}
}
