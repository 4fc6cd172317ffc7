package redistest_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLives: a server answers as soon as Start returns. After a restart it is another, empty
// server. It can be killed while it is frozen.
func TestLives(t *testing.T) {
	s := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	if got := s.CLI(t, "SET", "a", "1"); got != "OK" {
		t.Fatal(got)
	}
	id := func() string {
		_, rest, _ := strings.Cut(s.CLI(t, "INFO", "server"), "run_id:")
		return strings.Fields(rest)[0]
	}
	was := id()
	s.Restart(t)
	if id() == was || s.CLI(t, "EXISTS", "a") != "0" {
		t.Error("it is the same server")
	}
	if got := s.CLI(t, "CONFIG", "GET", "maxmemory-policy"); !strings.Contains(got, "allkeys-lru") {
		t.Errorf("it has forgotten its arguments: %q", got)
	}
	s.Freeze(t)
	s.Thaw(t)
	if got := s.CLI(t, "PING"); got != "PONG" {
		t.Error(got)
	}
	s.Freeze(t)
	s.Kill()
	s.Kill()
	s.Restart(t)
}
