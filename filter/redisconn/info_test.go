package redisconn

import (
	"strings"
	"testing"
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

// FuzzServerParse: nothing but the text itself ends up in the facts.
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
