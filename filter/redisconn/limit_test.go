package redisconn

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func fresh() *answers { return &answers{left: maxAnswer} }

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stream string
		ok     bool
	}{
		"ordinary":           {"$3\r\n$9x\r\n+OK\r\n:12\r\n_\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n*2\r\n$1\r\na\r\n:1\r\n", true},
		"resp3":              {"%1\r\n+k\r\n*1\r\n#t\r\n=8\r\ntxt:9999\r\n~1\r\n,1.5\r\n>2\r\n+x\r\n+y\r\n|1\r\n+a\r\n+b\r\n+c\r\n", true},
		"numbers in strings": {"$12\r\n*9999999999\n\r\n", true},
		"many small ones":    {strings.Repeat("*1\r\n:1\r\n", maxItems+1), true},
		"much in pieces":     {strings.Repeat("$1024\r\n"+strings.Repeat("x", 1024)+"\r\n", 2*maxAnswer/1024), true},
		// A reader that understands a length differently from the library loses its place.
		"nothing, and less":      {"$-0\r\n+A$2147483647\r\n", false},
		"nothing, with zeros":    {"$-01\r\n", false},
		"nothing, and more":      {"$-12\r\n", false},
		"less than nothing":      {"*-2\r\n", false},
		"a minus":                {"$-\r\n", false},
		"no length":              {"$\r\n", false},
		"half a line end":        {"$1\nab\r\n", false},
		"a return in a length":   {"$1\r2\r\n", false},
		"a blank in a length":    {"$ 1\r\na\r\n", false},
		"no attribute":           {"|-1\r\n+x\r\n", false}, // the library recurses for each attribute
		"attributes for ever":    {strings.Repeat("|0\r\n", maxDepth+1), false},
		"no map":                 {"%-1\r\n", false},
		"no set":                 {"~-1\r\n", false},
		"no push":                {">-1\r\n", false},
		"no error":               {"!-1\r\n", false},
		"no verbatim":            {"=-1\r\n", false},
		"big number":             {"(1\r\n", false},
		"large string":           {"$" + strconv.Itoa(maxString+1) + "\r\n", false},
		"large string with sign": {"$+2147483647\r\n", false},
		"large verbatim":         {"=9999999999999999999999\r\n", false},
		"large error":            {"!2147483647\r\n", false},
		"large array":            {"*300000\r\n", false},
		"large map":              {"%200000\r\n", false},
		"large push":             {">2147483647\r\n", false},
		"large attribute":        {"|200000\r\n", false},
		"many arrays":            {"*300\r\n" + strings.Repeat("*1000\r\n"+strings.Repeat(":1\r\n", 1000), 300), false},
		"deep":                   {strings.Repeat("*1\r\n", maxDepth+1), false},
		"deep with company":      {strings.Repeat("*2\r\n:1\r\n", maxDepth+1), false},
		"endless line":           {"+" + strings.Repeat("x", maxAnswer), false},
		"much in one":            {"*9\r\n" + strings.Repeat("$1000000\r\n"+strings.Repeat("x", 1000000)+"\r\n", 5), false},
	} {
		if got := fresh().follow([]byte(tc.stream)); got != tc.ok {
			t.Errorf("%s: %t", name, got)
		}
		a, ok := fresh(), true
		for i := 0; i < len(tc.stream) && ok; i++ {
			ok = a.follow([]byte{tc.stream[i]})
		}
		if ok != tc.ok {
			t.Errorf("%s, byte by byte: %t", name, ok)
		}
	}
}

// TestTextsOfErrors: every error's text is judged as the library reads it, no matter how the
// stream is cut.
func TestTextsOfErrors(t *testing.T) {
	t.Parallel()
	stream := "-MOVED 1 a:1\r\n*2\r\n!9\r\nASK 1 b:2\r\n+MOVED 1 x:1\r\n$11\r\nMOVED 1 x:1\r\n-ERR\r\n!0\r\n\r\n-" + strings.Repeat("x", 2*maxText) + "\r\n"
	want := []string{"MOVED 1 a:1", "ASK 1 b:2", "ERR", "", strings.Repeat("x", maxText)}
	for size := 1; size <= len(stream); size++ {
		var got []string
		a := &answers{left: maxAnswer, good: func(text string) bool { got = append(got, text); return true }}
		for rest := []byte(stream); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if !a.follow(rest[:min(size, len(rest))]) {
				t.Fatal("refused")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d bytes: %q", size, got)
		}
	}
	for _, stream := range []string{"-no\r\n", "*1\r\n!2\r\nno\r\n"} {
		a := &answers{left: maxAnswer, good: func(text string) bool { return text != "no" }}
		if a.follow([]byte(stream)) {
			t.Errorf("%q is taken", stream)
		}
	}
}

// FuzzAnswers: for a stream that passes, even a reader that believes every announcement
// stays within the bounds, no matter how the stream is cut.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n%1\r\n+k\r\n:1\r\n$-1\r\n"), uint8(3))
	f.Add([]byte("$+99999999999\r\n"), uint8(1))
	f.Add([]byte("$-0\r\n+A$2147483647\r\n"), uint8(2))
	f.Add([]byte(strings.Repeat("|-1\r\n", 3*maxDepth)), uint8(7))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		whole, parts := fresh(), fresh()
		ok, size := whole.follow(stream), int(cut)+1
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			if !parts.follow(rest[:n]) {
				if ok {
					t.Fatal("the cuts make a difference")
				}
				return
			}
			rest = rest[n:]
		}
		if !ok {
			t.Fatal("the cuts make a difference")
		}
		believe(t, bufio.NewReader(strings.NewReader(string(stream))), 0)
	})
}

// believe reads values as the library does, and fails at values that must never reach it.
// The value after an attribute is read one level deeper, because the library recurses.
func believe(t *testing.T, r *bufio.Reader, depth int) bool {
	if depth > 2*maxDepth {
		t.Fatal("too deep")
	}
	for top := depth == 0; ; {
		line, err := r.ReadString('\n')
		if err != nil || !strings.HasSuffix(line, "\r\n") {
			return false
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" || strings.ContainsRune("$!=*%~>|", rune(line[0])) && !announced(t, r, line, depth) {
			return false
		}
		if !top {
			return true
		}
	}
}

// announced reads what a header announces.
func announced(t *testing.T, r *bufio.Reader, line string, depth int) bool {
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < -1 {
		return false
	}
	if n > maxString {
		t.Fatalf("%q", line)
	}
	switch {
	case line[0] == '|':
		n = 2*max(n, 0) + 1
	case n < 0:
		return true
	case line[0] == '%':
		n *= 2
	case strings.ContainsRune("$!=", rune(line[0])):
		_, err := r.Discard(n + len("\r\n"))
		return err == nil
	}
	for range min(n, 100) {
		if !believe(t, r, depth+1) {
			return false
		}
	}
	return n <= 100
}

// TestHostileServer: announcements that would exhaust the memory are errors.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"$2147483647\r\n", "*2147483647\r\n", strings.Repeat("*1\r\n", 1000), "%1000000000\r\n", ">1000000000\r\n", "$-0\r\n+A$99999999999999\r\n", strings.Repeat("|-1\r\n", 1<<16)} {
		for _, url := range []string{"redis://%s", "redis+cluster://%s", "redis+sentinel://%s/m"} {
			address := respond(t, func(question string) string {
				if strings.Contains(strings.ToLower(question), "hello") {
					return "-ERR unknown command\r\n"
				}
				return answer
			})
			c := opened(t, Options{Settings: settings(fmt.Sprintf(url, address))})
			if err := c.Get(t.Context(), "x").Err(); err == nil || errors.Is(err, redis.Nil) {
				t.Errorf("%s, %.20q: %v", url, answer, err)
			}
		}
	}
}

// TestGarbage: bytes that are not an answer are errors at any point.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "\x00\x01\x02\r\n", "*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ":1\r\n", "+OK\r\n", "*1\r\n*2\r\n:0\r\n:16383\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:0\r\n"} {
		for _, hello := range []string{garbage, "-ERR unknown command\r\n"} {
			address := respond(t, func(question string) string {
				if strings.Contains(strings.ToLower(question), "hello") {
					return hello
				}
				return garbage
			})
			for _, url := range []string{"redis://%s", "redis+cluster://%s", "redis+sentinel://%s/m"} {
				// The client waits in vain for an answer to its question.
				c := opened(t, Options{Settings: settings(fmt.Sprintf(url, address)), Timeout: time.Second, DialTimeout: time.Second})
				if _, err := Identify(t.Context(), c); err == nil && garbage != "+OK\r\n" {
					t.Errorf("identified %s by %q", url, garbage)
				}
			}
		}
	}
}

// TestSocketStaysVisible: the library notices a closed connection by looking at the socket.
func TestSocketStaysVisible(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := limited((&net.Dialer{}).DialContext, nil)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := conn.(syscall.Conn); !ok {
		t.Fatal("hidden")
	}
}
