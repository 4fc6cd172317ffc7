package redisconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// hangUp, at the end of an answer, closes the connection.
const hangUp = "\x00"

// member is a server of a cluster that answers as a test wants. asked holds the commands
// that it got, except those about the protocol and about the places of keys.
type member struct {
	address string
	answer  func(command string) string

	mu    sync.Mutex
	asked []string
}

// startMember runs a member. It names owner as the owner of all slots, or itself if owner is
// nil.
func startMember(t *testing.T, owner *member, answer func(command string) string) *member {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{address: l.Addr().String(), answer: answer}
	if owner == nil {
		owner = m
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				m.serve(conn, owner.address)
			})
		}
	})
	return m
}

func (m *member) serve(conn net.Conn, owner string) {
	for r := bufio.NewReader(conn); ; {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		var said string
		switch {
		case strings.HasPrefix(command, "hello"):
			said = "-ERR unknown command\r\n"
		case command == "cluster slots":
			host, port, _ := net.SplitHostPort(owner)
			said = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n%s:%s\r\n", bulk(host), port)
		default:
			m.mu.Lock()
			m.asked = append(m.asked, command)
			m.mu.Unlock()
			said = m.answer(command)
		}
		said, last := strings.CutSuffix(said, hangUp)
		if _, err := io.WriteString(conn, said); err != nil || last {
			return
		}
	}
}

// heard returns the commands that it got since the last call.
func (m *member) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := m.asked
	m.asked = nil
	return heard
}

// readCommand reads one command as clients send it, as an array of strings.
func readCommand(r *bufio.Reader) (string, error) {
	line := func(kind byte) (int, error) {
		text, err := r.ReadString('\n')
		if err != nil || text[0] != kind {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	n, err := line('*')
	var words []string
	for range n {
		var length int
		if length, err = line('$'); err != nil {
			return "", err
		}
		word := make([]byte, length+2)
		if _, err = io.ReadFull(r, word); err != nil {
			return "", err
		}
		words = append(words, string(word[:length]))
	}
	return strings.ToLower(strings.Join(words, " ")), err
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// says answers reads with a value, and INFO replication with replication.
func says(value, replication string) func(string) string {
	return func(command string) string {
		switch {
		case command == "info replication":
			return replication
		case strings.HasPrefix(command, "info"):
			return "-ERR not now\r\n"
		case command == "asking":
			return "+OK\r\n"
		}
		return bulk(value)
	}
}

func primary(replid string) string { return bulk("role:master\r\nmaster_replid:" + replid + "\r\n") }

// readTwo reads two keys in one pipeline, in a context of [Again].
func readTwo(t *testing.T, c redis.UniversalClient, servers ...string) (one, two *redis.StringCmd) {
	t.Helper()
	pipe := c.Pipeline()
	one, two = pipe.GetRange(t.Context(), "a", 0, 9), pipe.GetRange(t.Context(), "b", 0, 9)
	_, _ = pipe.Exec(Again(t.Context(), servers)) // each command has its own error
	return one, two
}

// eachKind tries a member as part of a cluster and as a single server.
func eachKind(t *testing.T, m *member, try func(t *testing.T, c *client)) {
	t.Helper()
	for name, url := range map[string]string{"cluster": "redis+cluster://" + m.address, "server": m.address} {
		t.Run(name, func(t *testing.T) { try(t, opened(t, Options{Settings: settings(url)})) })
	}
}

// TestAgainIsAskedBehind: a server is asked whose data it holds on the same connection and
// after the reads. An answer from before the reads could be outdated. Only pipelines with
// [Again] ask.
func TestAgainIsAskedBehind(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil, says("value", primary("r")))
	eachKind(t, m, func(t *testing.T, c *client) {
		one, two := readTwo(t, c, "x/y", "run/r")
		if one.Val() != "value" || two.Val() != "value" || one.Err() != nil || two.Err() != nil {
			t.Errorf("%v, %v", one, two)
		}
		if got, want := m.heard(), []string{"getrange a 0 9", "getrange b 0 9", "info replication"}; !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		if err := c.GetRange(t.Context(), "a", 0, 9).Err(); err != nil {
			t.Error(err)
		}
		if got, want := m.heard(), []string{"getrange a 0 9"}; !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

// TestAgainLeavesConnectionsAlone: the commands that open a connection are sent only once.
func TestAgainLeavesConnectionsAlone(t *testing.T) {
	t.Parallel()
	identity := bulk("run_id:run\r\nrole:master\r\nmaster_replid:r\r\n")
	m := startMember(t, nil, func(command string) string {
		if strings.HasPrefix(command, "info") {
			return identity
		}
		return bulk("value")
	})
	for _, url := range []string{"redis+cluster://" + m.address, m.address} {
		c := opened(t, Options{Settings: settings(url), OnConnect: Vouched([]string{"run/r"})})
		if one, two := readTwo(t, c, "run/r"); one.Err() != nil || two.Err() != nil {
			t.Errorf("%s: %v, %v", url, one, two)
		}
		want := []string{"info server", "info replication", "info memory", "getrange a 0 9", "getrange b 0 9", "info replication"}
		if got := m.heard(); !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", url, got, want)
		}
	}
}

// TestAgainFailsClosed: reads count only if their server confirms afterwards that it is a
// primary with data that are vouched for.
func TestAgainFailsClosed(t *testing.T) {
	t.Parallel()
	for name, replication := range map[string]string{
		"refused":             "-NOPERM this user has no permissions to run the 'info' command\r\n",
		"unknown":             "-ERR unknown command 'info'\r\n",
		"later":               "-LOADING Redis is loading the dataset in memory\r\n",
		"elsewhere":           "-MOVED 1 127.0.0.1:1\r\n",
		"elsewhere, for once": "-ASK 1 127.0.0.1:1\r\n",
		"nothing":             hangUp,
		"cut off":             "$100\r\nrole:master\r\nmaster_replid:r\r\n" + hangUp,
		"nil":                 "$-1\r\n",
		"empty":               bulk(""),
		"replica":             bulk("role:slave\r\nmaster_replid:r\r\n"),
		"no role":             bulk("master_replid:r\r\n"),
		"no data":             bulk("role:master\r\n"),
		"other data":          primary("s"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMember(t, nil, says("value", replication))
			eachKind(t, m, func(t *testing.T, c *client) {
				one, two := readTwo(t, c, "run/r")
				broken := strings.HasSuffix(replication, hangUp)
				for _, read := range []*redis.StringCmd{one, two} {
					if err := read.Err(); err == nil || errors.Is(err, ErrNotVouched) == broken {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestAgainKeepsOtherErrors: a server that could not be reached does not count as another
// server, and a command that was answered with an error keeps that error.
func TestAgainKeepsOtherErrors(t *testing.T) {
	t.Parallel()
	silent := startMember(t, nil, func(string) string { return hangUp })
	eachKind(t, silent, func(t *testing.T, c *client) {
		if one, two := readTwo(t, c, "run/r"); one.Err() == nil || two.Err() == nil || errors.Is(one.Err(), ErrNotVouched) || errors.Is(two.Err(), ErrNotVouched) {
			t.Errorf("%v, %v", one, two)
		}
	})
	list := startMember(t, nil, func(command string) string {
		if command == "getrange a 0 9" {
			return "-WRONGTYPE\r\n"
		}
		return says("value", primary("s"))(command)
	})
	eachKind(t, list, func(t *testing.T, c *client) {
		if one, two := readTwo(t, c, "run/r"); one.Err() == nil || one.Err().Error() != "WRONGTYPE" || !errors.Is(two.Err(), ErrNotVouched) {
			t.Errorf("%v, %v", one, two)
		}
	})
}

// TestAgainIsAskedWithEachAttempt: if the client of a cluster repeats reads, the server that
// answers the repetition is asked again. The earlier question is not repeated.
func TestAgainIsAskedWithEachAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, then string
		want        error
	}{
		"broken, and fine then":    {hangUp, primary("r"), nil},
		"broken, and another then": {hangUp, primary("s"), ErrNotVouched},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m *member
			var times atomic.Int32
			m = startMember(t, nil, func(command string) string {
				if command == "info replication" && times.Add(1) == 1 {
					return tc.first
				}
				return says("value", tc.then)(command)
			})
			one, two := readTwo(t, opened(t, Options{Settings: settings("redis+cluster://" + m.address)}), "run/r")
			if !errors.Is(one.Err(), tc.want) || !errors.Is(two.Err(), tc.want) {
				t.Errorf("%v, %v", one, two)
			}
			attempt := []string{"getrange a 0 9", "getrange b 0 9", "info replication"}
			if got, want := m.heard(), slices.Concat(attempt, attempt); !slices.Equal(got, want) {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

// TestAgainIsAskedOfWhoAnswers: if a cluster says that a key is elsewhere, the server that
// holds the key is asked whose data it holds. Its answer counts only for the reads that it
// answered.
func TestAgainIsAskedOfWhoAnswers(t *testing.T) {
	t.Parallel()
	for redirect, first := range map[string][]string{"MOVED": nil, "ASK": {"asking"}} {
		t.Run(redirect, func(t *testing.T) {
			t.Parallel()
			var from, to *member
			from = startMember(t, nil, func(command string) string {
				if command == "getrange b 0 9" {
					return "-" + redirect + " 3300 " + to.address + "\r\n"
				}
				return says("here", primary("from"))(command)
			})
			to = startMember(t, from, says("there", primary("to")))
			for _, tc := range []struct {
				servers  []string
				one, two error
			}{
				{[]string{"x/from", "y/to"}, nil, nil},
				{[]string{"x/from"}, nil, ErrNotVouched},
				{[]string{"y/to"}, ErrNotVouched, nil},
			} {
				// A new client has not been told yet where the key is.
				one, two := readTwo(t, opened(t, Options{Settings: settings("redis+cluster://" + from.address)}), tc.servers...)
				if !errors.Is(one.Err(), tc.one) || !errors.Is(two.Err(), tc.two) || one.Val() != "here" || two.Val() != "there" {
					t.Errorf("%v: %v, %v", tc.servers, one, two)
				}
				if got, want := to.heard(), slices.Concat(first, []string{"getrange b 0 9", "info replication"}); !slices.Equal(got, want) {
					t.Errorf("%v: asked %q, want %q", tc.servers, got, want)
				}
			}
		})
	}
}
