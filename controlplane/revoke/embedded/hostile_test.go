package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are inputs that ended the process of a server without bounds before any password.
// Each declares a length that is absent, negative or enormous.
var hostile = []string{
	"*0\r\n",
	"*-1\r\n",
	"$9223372036854775807\r\n",
	"$30000000000\r\n",
	"*9223372036854775807\r\n",
	"*1\r\n$30000000000\r\n",
	"*1\r\n$4000000\r\n",
	"*1\r\n$-1\r\n",
	"*2147483647\r\n$4\r\nAUTH\r\n",
	"*1\r\n*1\r\n$4\r\nPING\r\n",
	"PING\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"\r\n",
	"*1\n$4\nPING\n",
	"*" + strings.Repeat("1", 1<<16),
	"*1\r\n$4\r\nPINGxx",
	"*00000000000000000001\r\n",
	"*+1\r\n$4\r\nPING\r\n",
}

// send writes data on a new connection and returns everything that is answered until the
// server hangs up.
func send(t *testing.T, s *Server, data string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, data) // the server may hang up before it has read all of it
	answer, err := io.ReadAll(conn)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Errorf("%.40q keeps the connection open", data)
	}
	return string(answer)
}

// Whatever is sent before the password, the server hangs up, continues to run and allocates
// next to nothing.
func TestHostileBytesBeforeThePassword(t *testing.T) {
	s, c := start(t, Options{})
	if err := c.Ping(context.Background()).Err(); err != nil { // allocates what the first client needs
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, data := range hostile {
		if answer := send(t, s, data); answer != "" && !strings.HasPrefix(answer, "-") {
			t.Errorf("%.40q is answered %q", data, answer)
		}
		if err := c.Ping(context.Background()).Err(); err != nil {
			t.Fatalf("after %.40q: %v", data, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 { // including the clients of the test
		t.Errorf("%d bytes were allocated", n)
	}
}

// With the password the bounds are wider, but they hold.
func TestHostileBytesAfterThePassword(t *testing.T) {
	s, c := start(t, Options{})
	login := encode("AUTH", s.writer)
	for _, data := range append(hostile, "*1\r\n$1000000\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n") {
		if answer := send(t, s, login+data); !strings.HasPrefix(answer, "+OK\r\n") || strings.Count(answer, "+") != 1 {
			t.Errorf("%.40q is answered %q", data, answer)
		}
	}
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

// Only the password is accepted first, and only a few attempts are allowed.
func TestPasswordComesFirst(t *testing.T) {
	s, _ := start(t, Options{})
	for _, cmd := range [][]string{{"GET", "k"}, {"SET", "k", "v"}, {"PING"}, {"INFO"}, {"SUBSCRIBE", "k"}, {"FLUSHALL"}, {"AUTH"}, {"AUTH", "x"}, {"AUTH", ""}, {"AUTH", "a", "b", "c"}} {
		answer := send(t, s, strings.Repeat(encode(cmd...), attempts+5))
		if strings.Count(answer, "\r\n") != attempts || strings.Count(answer, "-") < attempts || strings.ContainsAny(answer, "+$*:") {
			t.Errorf("%v is answered %q", cmd, answer)
		}
	}
}

// Filters get a password that can only read.
func TestReadersCannotWrite(t *testing.T) {
	s, c := start(t, Options{})
	ctx := context.Background()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := client(t, s.NodeURL())
	if got := r.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("a reader reads %q", got)
	}
	if err := r.Set(ctx, "k", "forged", 0).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a reader writes: %v", err)
	}
	for _, cmd := range []string{"DEL", "FLUSHALL", "CONFIG", "DEBUG", "SHUTDOWN", "EVAL", "KEYS", "SUBSCRIBE"} {
		if err := r.Do(ctx, cmd, "k").Err(); err == nil {
			t.Errorf("a reader may %s", cmd)
		}
	}
	if got := c.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("the value became %q", got)
	}
}

// Silent connections end by themselves and do not block others: the newest replaces the
// oldest, and connections with a password are not counted among them.
func TestSilentConnections(t *testing.T) {
	s, c := start(t, Options{Handshake: time.Hour})
	ctx := context.Background()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var silent []net.Conn
	for range 3 * anonymous {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	other := client(t, s.URL())
	for range 100 {
		if err := other.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := silent[0].SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Error("the oldest silent connection is still there")
		}
	}
	if n := s.conns.len(); n > anonymous+8 {
		t.Errorf("%d connections", n)
	}
}

// The maximum number of readers does not keep the control plane out, and neither does a
// reader that changes its password.
func TestReadersLeavePlacesForTheWriter(t *testing.T) {
	s, c := start(t, Options{})
	enter := func(password string) (login func(password string) error) {
		near, far := net.Pipe()
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		s.conns.add(far)
		one := &session{s: s, conn: far, out: bufio.NewWriter(io.Discard)}
		login = func(password string) error { return one.answer([][]byte{[]byte("AUTH"), []byte(password)}) }
		if err := login(password); err != nil {
			return nil
		}
		return login
	}
	readers := 0
	var last func(string) error
	for range known + 1 {
		if login := enter(s.reader); login != nil {
			readers, last = readers+1, login
		}
	}
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Errorf("the writer beside %d readers: %v", readers, err)
	}
	if readers < known*9/10 {
		t.Errorf("%d readers only", readers)
	}
	// Places are counted by role: a reader that becomes a writer frees the place of a
	// reader.
	if err := last(s.writer); err != nil {
		t.Errorf("a reader that becomes a writer: %v", err)
	}
	if enter(s.reader) == nil {
		t.Error("no place for one more reader")
	}
	if err := last(s.reader); err == nil {
		t.Error("a writer becomes one reader too many")
	}
}

func TestHandshakeHasADeadline(t *testing.T) {
	s, _ := start(t, Options{Handshake: time.Millisecond})
	if answer := send(t, s, "*1\r\n"); answer != "" { // send fails if the server does not hang up
		t.Errorf("answer %q", answer)
	}
}

// A long answer is sent on a connection that was idle for longer than a write may take.
func TestLongAnswerAfterAPause(t *testing.T) {
	s, _ := start(t, Options{})
	s.set("k", bytes.Repeat([]byte("x"), 3*lineBuffer))
	near, far := net.Pipe()
	defer near.Close()
	c := &session{s: s, conn: far, role: reader, in: &requests{in: bufio.NewReaderSize(far, lineBuffer)}, out: bufio.NewWriter(far)}
	if err := far.SetWriteDeadline(time.Unix(1, 0)); err != nil { // simulates the pause
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(c.step(), far.Close()) }()
	go func() { _, _ = io.WriteString(near, encode("GET", "k")) }()
	answer := make([]byte, 3*lineBuffer)
	if _, err := io.ReadFull(near, answer); err != nil {
		t.Error(err)
	}
	_ = near.Close()
	<-done
}

// A panic ends one connection.
func TestPanicEndsOneConnection(t *testing.T) {
	s, c := start(t, Options{})
	s.fault = func(name []byte) {
		if bytes.Equal(name, []byte("BOOM")) {
			panic("boom")
		}
	}
	send(t, s, encode("AUTH", s.writer)+encode("BOOM"))
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

// encode writes a command as clients do.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// FuzzRequest reads any bytes as requests. It demands that nothing panics, that no request
// exceeds the bounds, and that a request encodes to the bytes that were sent.
func FuzzRequest(f *testing.F) {
	for _, data := range hostile {
		f.Add([]byte(data))
	}
	f.Add([]byte(encode("SET", "k", "v") + encode("GET", "k")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range []bounds{beforePassword, afterPassword} {
			rd := &requests{in: bufio.NewReaderSize(bytes.NewReader(data), lineBuffer)}
			var again strings.Builder
			for {
				args, err := rd.next(b)
				if err != nil {
					break
				}
				if len(args) == 0 || len(args) > b.args {
					t.Fatalf("%d arguments", len(args))
				}
				texts, total := make([]string, len(args)), 0
				for i, a := range args {
					texts[i] = string(a)
					total += len(a)
				}
				if total > b.bytes || cap(rd.text) > 2*afterPassword.bytes {
					t.Fatalf("%d bytes in a buffer of %d", total, cap(rd.text))
				}
				again.WriteString(encode(texts...))
			}
			if !strings.HasPrefix(string(data), again.String()) {
				t.Fatalf("%q was read as %q", data, again.String())
			}
		}
	})
}

// FuzzConnection sends any bytes after the password. The server must keep running.
func FuzzConnection(f *testing.F) {
	f.Add([]byte(encode("SET", "k", "v") + encode("GET", "k") + encode("GETRANGE", "k", "0", "3") + encode("PING")))
	f.Add([]byte(encode("SET", "k") + encode("GET") + encode("AUTH", "x") + encode("INFO", "server")))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := unstarted(Options{})
		var out bytes.Buffer
		c := &session{s: s, in: &requests{in: bufio.NewReaderSize(bytes.NewReader(append([]byte(encode("AUTH", s.writer)), data...)), lineBuffer)}, out: bufio.NewWriter(&out)}
		for c.step() == nil {
		}
	})
}
