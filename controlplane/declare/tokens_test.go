package declare

import (
	"strings"
	"testing"
	"time"
)

// TestTokens: access tokens move with everything that makes them valid, and no command takes
// one away.
func TestTokens(t *testing.T) {
	from, to := newRig(t, ""), newRig(t, "")
	from.must(t, "sync", file(t, whole))
	from.api(t, "POST", "/oauth2_tokens", `{"credential":{"client_id":"app1"},"service":{"name":"billing"},"access_token":"the-token","refresh_token":"the-refresh","expires_in":7200,"scope":"email","authenticated_userid":"u-1","ttl":5000,"created_at":1700000000000}`, 201)
	from.api(t, "POST", "/oauth2_tokens", `{"credential":{"client_id":"app2"},"access_token":"another","expires_in":0}`, 201)
	if dump := from.must(t, "dump"); strings.Contains(dump, "the-token") {
		t.Error("a dump has tokens without being asked for them")
	}
	dump := from.must(t, "dump", "--with-tokens")
	f := file(t, dump)
	if out, code := to.run(t, "sync", f); code != 1 || !strings.Contains(out, "--with-tokens") {
		t.Errorf("%d %s", code, out)
	}
	out := to.must(t, "sync", f, "--with-tokens")
	if strings.Contains(out, "the-token") || strings.Contains(out, "the-refresh") || strings.Count(out, "creating oauth2-token ") != 2 {
		t.Error(out)
	}
	moved := to.api(t, "GET", "/oauth2_tokens/the-token", "", 200)
	for _, part := range []string{`"refresh_token":"the-refresh"`, `"expires_in":7200`, `"scope":"email"`, `"authenticated_userid":"u-1"`, `"created_at":1700000000000`} {
		if !strings.Contains(moved, part) {
			t.Errorf("%s is not in %s", part, moved)
		}
	}
	if out := to.must(t, "diff", f, "--with-tokens", "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	if out := to.must(t, "sync", file(t, from.must(t, "dump")), "--with-tokens"); !strings.Contains(out, "Deleted: 0") {
		t.Error(out)
	}
	to.api(t, "GET", "/oauth2_tokens/the-token", "", 200)
}

// TestAge: lifetimes go on while a file lies about.
func TestAge(t *testing.T) {
	d, err := Parse([]source{{"f", []byte("_format_version: \"3.0\"\n_info: {dumped_at: \"2026-01-01T00:00:00Z\"}\nconsumers:\n- username: c\n  keyauth_credentials:\n  - {key: a, ttl: 100}\n  - {key: b, ttl: 10}\n  - {key: c}\n")}}, Kinds(false, true))
	if err != nil {
		t.Fatal(err)
	}
	d.age(time.Date(2026, 1, 1, 0, 0, 40, 0, time.UTC))
	var left []any
	for _, e := range d.Entities[1:] {
		left = append(left, e.Values["key"], e.Values["ttl"])
	}
	if len(left) != 4 || left[0] != "a" || left[1] != int64(60) || left[2] != "c" || left[3] != nil {
		t.Errorf("%v", left)
	}
}
