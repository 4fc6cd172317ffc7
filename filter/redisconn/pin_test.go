package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// TestPin: once servers were identified, a client writes to no other server, no matter how
// it found that one.
func TestPin(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	var named atomic.Value
	named.Store(first.Port)
	address := respond(t, func(question string) string {
		if strings.Contains(strings.ToLower(question), "hello") {
			return "-ERR unknown command\r\n"
		}
		return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len(named.Load().(string)), named.Load())
	})
	c := opened(t, Options{Settings: settings("redis+sentinel://" + address + "/m")})
	set := func() error { return c.Set(t.Context(), "x", 1, 0).Err() }
	if err := set(); err != nil {
		t.Fatal(err)
	}

	named.Store(second.Port)
	all, err := Pin(t.Context(), c) // the connection to the first is open
	if err != nil || len(all) != 1 || !strings.Contains(second.CLI(t, "INFO", "server"), all[0].RunID) {
		t.Fatalf("%+v %v", all, err)
	}
	first.CLI(t, "DEL", "x")
	if err := set(); err != nil || first.CLI(t, "EXISTS", "x") != "0" {
		t.Fatalf("not the server that was identified: %v", err)
	}

	named.Store(first.Port)
	second.Disconnect(t)
	if err := set(); !errors.Is(err, errStranger) || first.CLI(t, "EXISTS", "x") != "0" {
		t.Fatalf("the other server was written to: %v", err)
	}
	if _, err := Identify(t.Context(), c); !errors.Is(err, errStranger) {
		t.Fatal(err)
	}
	if all, err := Pin(t.Context(), c); err != nil || !strings.Contains(first.CLI(t, "INFO", "server"), all[0].RunID) {
		t.Fatalf("%+v %v", all, err)
	}
	if err := set(); err != nil || first.CLI(t, "EXISTS", "x") != "1" {
		t.Fatal(err)
	}
}

// TestPinRefusesReplicas: a replica may soon be a primary.
func TestPinRefusesReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--replicaof", "127.0.0.1 1")
	c := opened(t, Options{Settings: settings(server.Address())})
	if _, err := Pin(t.Context(), c); !errors.Is(err, errNotPrimary) {
		t.Fatal(err)
	}
	server.CLI(t, "REPLICAOF", "NO", "ONE")
	if _, err := Pin(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// TestPinWithoutFacts: if servers do not say who they are, nothing can be compared, and the
// client works without pins.
func TestPinWithoutFacts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	user := server.User(t, "u", "p", "~*", "-@all", "+get")
	c := opened(t, Options{Settings: settings("redis://" + user + server.Address())})
	if all, err := Pin(t.Context(), c); err != nil || all[0] != (Server{}) {
		t.Fatalf("%+v %v", all, err)
	}
	server.Disconnect(t)
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}
