package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"listen":"127.0.0.1:0","gateway":"https://g.example/app","admin":"http://localhost:8001","provision_key":"k"}`, ""},
		{`{"listen":"[::1]:0","gateway":"https://g.example","admin":"https://a.example","provision_key":"k"}`, ""},
		{`{"listen":":443","cert_file":"c","key_file":"k","gateway":"https://g.example","admin":"http://127.0.0.1:1","provision_key":"k"}`, ""},
		{`{"listen":"127.0.0.1:0","gateway":"http://g.example/app","admin":"http://localhost:8001","provision_key":"k"}`, "must be a URL with https"},
		{`{"listen":"127.0.0.1:0","gateway":"https://g.example","admin":"http://a.example","provision_key":"k"}`, "must have https, or be on loopback"},
		{`{"listen":"127.0.0.1:0","gateway":"https://g.example","admin":"http://localhost:1"}`, "provision_key is missing"},
		{`{"listen":":80","gateway":"https://g.example","admin":"http://localhost:1","provision_key":"k"}`, "needs cert_file"},
		{`{"listen":":80","cert_file":"c","gateway":"https://g.example","admin":"http://localhost:1","provision_key":"k"}`, "go together"},
		{`{"listen":"127.0.0.1:0","gateway":"https://g.example","admin":"http://localhost:1","provision_key":"k","users":[{"name":"x"}]}`, "users[0] needs"},
		{`{"listn":""}`, "unknown field"},
		{`{`, "unexpected EOF"},
	} {
		file := filepath.Join(t.TempDir(), "login.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readConfig(file)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if _, err := readConfig("nowhere.json"); err == nil {
		t.Error("a file that is not there can be read")
	}
}

func TestDirectory(t *testing.T) {
	now := time.Unix(1, 0)
	d, err := newDirectory([]user{{"ada", "secret", "user-1"}, {"bob", "secret", "user-2"}}, 1, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	verify := func(name, password, want string) {
		t.Helper()
		if got := d.verify(name, password); got != want {
			t.Errorf("%s with %s is %q, want %q", name, password, got, want)
		}
	}
	for range maxFailures {
		verify("ada", "guess", "")
	}
	verify("ada", "secret", "") // tried too often
	verify("bob", "secret", "user-2")
	verify("eve", "secret", "")
	now = now.Add(failureWindow)
	verify("ada", "secret", "user-1")
	if len(d.failures) != 0 {
		t.Errorf("%d names are remembered", len(d.failures))
	}
	if _, err := newDirectory([]user{{"ada", "a", "1"}, {"ada", "b", "2"}}, 1, time.Now); err == nil {
		t.Error("one name for two users")
	}
}

// begin starts a session and returns a request of it.
func begin(t *testing.T, s *sessions) *http.Request {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	s.begin(w, r, "user-1")
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	return r
}

func TestSessions(t *testing.T) {
	now := time.Unix(1, 0)
	s := &sessions{now: func() time.Time { return now }, byID: map[string]session{}}
	first := begin(t, s)
	if _, ok := s.of(first); !ok {
		t.Error("a session that has begun is there")
	}
	now = now.Add(sessionLife)
	if _, ok := s.of(first); ok {
		t.Error("a session outlives its time")
	}
	for range maxSessions {
		begin(t, s)
	}
	if len(s.byID) != maxSessions || len(s.order) != maxSessions {
		t.Errorf("%d sessions, %d ids", len(s.byID), len(s.order))
	}
}
