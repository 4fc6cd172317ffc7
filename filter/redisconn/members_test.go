package redisconn

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slotsOf returns an answer to CLUSTER SLOTS in which each address has a slot of its own.
func slotsOf(addresses ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(addresses))
	for i, address := range addresses {
		host, port, _ := net.SplitHostPort(address)
		fmt.Fprintf(&b, "*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", i, i, len(host), host, port)
	}
	return b.String()
}

// strangers returns n addresses. Calls with ranges that do not overlap have no address in
// common.
func strangers(first, n int) (all []string) {
	for i := first; i < first+n; i++ {
		all = append(all, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&0xff, i&0xff))
	}
	return all
}

// liar returns a client of a cluster whose addresses all lead to one server. slots and read
// give that server's answers. nodes counts the nodes that the library has made.
func liar(t *testing.T, slots, read func() string) (c *client, nodes *atomic.Int64) {
	t.Helper()
	address := respond(t, func(question string) (answer string) {
		for word := range strings.SplitSeq(strings.ToLower(question), "\r\n") {
			switch word {
			case "hello":
				answer += "-ERR unknown command\r\n"
			case "asking":
				answer += "+OK\r\n"
			case "slots":
				answer += slots()
			case "getrange":
				answer += read()
			}
		}
		return answer
	})
	c = opened(t, Options{Settings: settings("redis+cluster://" + address), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}})
	nodes = &atomic.Int64{}
	c.UniversalClient.(*redis.ClusterClient).OnNewNode(func(*redis.Client) { nodes.Add(1) })
	return c, nodes
}

// TestClusterNamesStrangers: no answer or series of answers makes the library keep more
// nodes than a cluster has. Each node costs kilobytes, and time for all others.
func TestClusterNamesStrangers(t *testing.T) {
	t.Parallel()
	const many = 10_000
	nothing, one := func() string { return "$-1\r\n" }, func() string { return slotsOf("10.255.0.1:1") }
	for name, answers := range map[string]func(next func(n int) []string) (slots, read func() string){
		"at once": func(next func(int) []string) (slots, read func() string) {
			return func() string { return slotsOf(next(many)...) }, nothing
		},
		"replicas": func(next func(int) []string) (slots, read func() string) {
			return func() string {
				var b strings.Builder
				fmt.Fprintf(&b, "*1\r\n*%d\r\n:0\r\n:16383\r\n", many+2)
				for _, address := range next(many) {
					host, _, _ := net.SplitHostPort(address)
					fmt.Fprintf(&b, "*2\r\n$%d\r\n%s\r\n:1\r\n", len(host), host)
				}
				return b.String()
			}, nothing
		},
		"little by little": func(next func(int) []string) (slots, read func() string) {
			return func() string { return slotsOf(next(500)...) }, nothing
		},
		"moved": func(next func(int) []string) (slots, read func() string) {
			return one, func() string { return "-MOVED 1 " + next(1)[0] + "\r\n" }
		},
		"asked": func(next func(int) []string) (slots, read func() string) {
			return one, func() string {
				line := "ASK 1 " + next(1)[0]
				return fmt.Sprintf("!%d\r\n%s\r\n", len(line), line)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int64
			slots, read := answers(func(n int) []string { return strangers(int(told.Add(int64(n)))-n, n) })
			c, nodes := liar(t, slots, read)
			for asked := 0; told.Load() < maxMembers+500; asked++ {
				if asked > 1<<16 {
					t.Fatal("the server is not asked")
				}
				c.UniversalClient.(*redis.ClusterClient).ReloadState(t.Context())
				pipe := c.Pipeline()
				for key := range 50 { // they are sent in one piece
					pipe.GetRange(t.Context(), fmt.Sprint(key), 0, 1)
				}
				_, _ = pipe.Exec(t.Context()) // the results do not matter here
			}
			if n := nodes.Load(); n > maxMembers+1 {
				t.Errorf("%d nodes", n)
			}
		})
	}
}

// TestMembers: an address that is named again is not counted again, one that has not been
// named for long is forgotten, and a refused answer leaves nothing behind.
func TestMembers(t *testing.T) {
	t.Parallel()
	m, now := newMembers(), time.Unix(0, 0)
	ask := func(want bool, first, n int) {
		t.Helper()
		if got := m.admit(now, strangers(first, n)); got != want {
			t.Errorf("%d from %d: %t", n, first, got)
		}
	}
	ask(false, 0, maxMembers+1)
	ask(true, 0, maxMembers-1)
	now = now.Add(membersKept - 1)
	ask(true, 0, 10)
	ask(false, maxMembers, 2)
	ask(true, maxMembers, 1)
	ask(false, 2*maxMembers, 1)
	now = now.Add(2)
	ask(false, 2*maxMembers, maxMembers-10)
	ask(true, 2*maxMembers, maxMembers-11)
	ask(true, 0, 10)
	if m.admit(now, []string{strings.Repeat("a", maxMemberName) + ":1"}) {
		t.Error("a name without an end")
	}
	for text, want := range map[string]bool{
		"ERR no": true, "MOVED 1 10.0.0.1:1": true, "MOVED": true, "ASK 1 " + strings.Repeat("a", maxMemberName) + ":1": false,
		"MOVED" + strings.Repeat(" a", maxText): false, "ERR" + strings.Repeat(" a", maxText): true,
	} {
		if got := newMembers().redirected(text); got != want {
			t.Errorf("%.30q: %t", text, got)
		}
	}
}

// TestSeenFrom: the address that the library derives counts as well.
func TestSeenFrom(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"10.0.0.1:7000", "10.0.0.2:7001", "10.0.0.2:7001"},
		{"10.0.0.1:7000", "127.0.0.1:7001", "10.0.0.1:7001"},
		{"10.0.0.1:7000", "[::1]:0", "10.0.0.1:7000"},
		{"localhost:7000", "127.0.0.1:7001", "localhost:7001"},
		{"10.0.0.1:7000", "no address", "no address"},
	} {
		if got := seenFrom(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%s, said by %s: %s", tc[1], tc[0], got)
		}
	}
}
