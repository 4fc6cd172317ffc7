package redisconn

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

func TestServerParse(t *testing.T) {
	t.Parallel()
	var s Server
	s.parse("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Replication\r\nrole:slave\r\nmaster_replid:def\r\nmaster_replid2:000\r\nmaxmemory_policy:noeviction\r\n")
	if want := (Server{RunID: "abc", ReplID: "def", Role: "slave", Eviction: "noeviction"}); s != want {
		t.Errorf("%+v", s)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Server{
		"":      {ReplID: "r", Database: 1},
		"a":     {RunID: "a"},
		"a#1":   {RunID: "a", Database: 1},
		"a/r":   {RunID: "a", ReplID: "r"},
		"a/r#2": {RunID: "a", ReplID: "r", Database: 2},
	} {
		if got := s.Identity(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

// FuzzServerParse: the facts contain only pieces of the text.
func FuzzServerParse(f *testing.F) {
	f.Add("run_id:abc\r\nrole:master\nmaster_replid:\r\n:x\nmaxmemory_policy:noeviction:x")
	f.Fuzz(func(t *testing.T, text string) {
		var s Server
		s.parse(text)
		for _, v := range []string{s.RunID, s.ReplID, s.Role, s.Eviction} {
			if !strings.Contains(text, v) || strings.ContainsAny(v, "\n") {
				t.Fatalf("%q from %q", v, text)
			}
		}
	})
}

// TestBusyServer: a server that is too busy to say who it is has not refused to. If it
// counted as a server that never tells, nobody would notice when another server takes its
// place.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--lua-time-limit", "1")
	c := opened(t, Options{Settings: settings(server.Address())})
	all, err := Pin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	script := exec.Command("redis-cli", "-p", server.Port, "EVAL", "while true do end", "0")
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = script.Wait() }()
	defer server.CLI(t, "SCRIPT", "KILL")
	until(t, "the script takes too long", func() bool { return strings.HasPrefix(server.CLI(t, "GET", "x"), "BUSY") })
	if got, err := Identify(t.Context(), c); err == nil {
		t.Errorf("it says it is %+v, and was %+v", got, all)
	}
	if got, err := Pin(t.Context(), c); err == nil {
		t.Errorf("pinned to %+v", got)
	}
}

// TestRefusal: only a question that is forbidden or not understood is never answered.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for answer, refused := range map[string]bool{
		"NOPERM this user has no permissions to run the 'info' command": true,
		"ERR unknown command 'info'":                                    true,
		"unsupported command 'info'":                                    true,
		"ERR max number of clients reached":                             false,
		"LOADING Redis is loading the dataset in memory":                false,
		"BUSY Redis is busy running a script":                           false,
		"NOAUTH Authentication required.":                               false,
	} {
		address := respond(t, func(question string) string {
			if strings.Contains(strings.ToLower(question), "info") {
				return strings.Repeat("-"+answer+"\r\n", 3)
			}
			return "-ERR unknown command\r\n"
		})
		all, err := Identify(t.Context(), opened(t, Options{Settings: settings(address)}))
		if (err == nil) != refused {
			t.Errorf("%s: %+v, %v", answer, all, err)
		}
	}
}
