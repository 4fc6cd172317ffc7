package declare

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTokensOfOthers: with select tags, only the tokens of what is selected are written, to a
// file and back.
func TestTokensOfOthers(t *testing.T) {
	r := newRig(t, "")
	app := func(name string) string {
		return "consumers:\n- username: " + name + "\n  oauth2_credentials:\n  - {name: a, client_id: " + name + "s, client_secret: of-" + name + ", redirect_uris: [\"https://app.example/cb\"]}\n"
	}
	r.must(t, "sync", "--select-tag", "a", file(t, app("alice")))
	r.must(t, "sync", "--select-tag", "b", file(t, app("bob")))
	for _, who := range []string{"alice", "bob"} {
		r.api(t, "POST", "/oauth2_tokens", `{"credential":{"client_id":"`+who+`s"},"access_token":"token-of-`+who+`","expires_in":0}`, 201)
	}
	dump := r.must(t, "dump", "--with-tokens", "--select-tag", "a")
	if !strings.Contains(dump, "token-of-alice") || strings.Contains(dump, "token-of-bob") {
		t.Error(dump)
	}
	if out := r.must(t, "diff", "--with-tokens", "--non-zero-exit-code", file(t, dump)); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	r.writes = nil
	out, code := r.run(t, "sync", "--with-tokens", file(t, strings.ReplaceAll(dump, "credential: alices", "credential: bobs")))
	if code != 1 || !strings.Contains(out, "is not selected") || len(r.writes) > 0 {
		t.Errorf("%d %s %v", code, out, r.writes)
	}
}

var dumped = regexp.MustCompile(`dumped_at: .*`)

// TestLifetimes: what has run out while a file lay about is not made again, and a lifetime is
// what the file says.
func TestLifetimes(t *testing.T) {
	r := newRig(t, "")
	key := func(rest string) string {
		return file(t, "consumers:\n- username: c\n  keyauth_credentials:\n  - {key: k"+rest+"}\n")
	}
	r.must(t, "sync", key(", ttl: 5000"))
	dump := r.must(t, "dump")
	if !dumped.MatchString(dump) {
		t.Fatal(dump)
	}
	for _, same := range []string{key(", ttl: 5000"), key(", ttl: 9999"), file(t, dump)} {
		if out := r.must(t, "diff", "--non-zero-exit-code", same); !strings.HasPrefix(out, "Summary:") {
			t.Error(out)
		}
	}
	other := newRig(t, "")
	old := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	if out := other.must(t, "sync", file(t, dumped.ReplaceAllString(dump, `dumped_at: "`+old+`"`))); !strings.Contains(out, "Created: 1\n") {
		t.Errorf("a key that has run out is made again: %s", out)
	}
	if out := r.must(t, "sync", key(", ttl: 100")); !strings.Contains(out, "Updated: 1\n") {
		t.Errorf("a shorter lifetime: %s", out)
	}
	if out := r.must(t, "sync", key("")); !strings.Contains(out, "Updated: 1\n") || strings.Contains(r.must(t, "dump"), "ttl") {
		t.Errorf("no lifetime: %s", out)
	}
	if plain := r.must(t, "dump"); dumped.MatchString(plain) {
		t.Error(plain)
	}
}

// TestFilesOfTheirOwn: what a file says of its age and of defaults is not about others.
func TestFilesOfTheirOwn(t *testing.T) {
	const key = "_format_version: \"3.0\"\nkey-auths:\n- {consumer: c, key: NAME, ttl: 100}\n"
	sources := []source{
		{"old", []byte(strings.ReplaceAll(key, "NAME", "a") + "_info: {dumped_at: \"2026-01-01T00:00:00Z\"}\n")},
		{"new", []byte(strings.ReplaceAll(key, "NAME", "b"))},
	}
	d, err := Parse(sources, Kinds(false, true))
	if err != nil {
		t.Fatal(err)
	}
	if d.age(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)); len(d.Entities) != 1 || d.Entities[0].Values["key"] != "b" || d.Entities[0].Values["ttl"] != int64(100) {
		t.Errorf("%v", d.Entities)
	}
	defaults := func(n string) source {
		return source{"f" + n, []byte("_format_version: \"3.0\"\n_info: {defaults: {service: {retries: " + n + "}}}\n")}
	}
	if _, err := Parse([]source{defaults("1"), defaults("1")}, Kinds(false, true)); err != nil {
		t.Error(err)
	}
	if _, err := Parse([]source{defaults("1"), defaults("2")}, Kinds(false, true)); err == nil || !strings.Contains(err.Error(), "_info.defaults.service.retries") {
		t.Errorf("%v", err)
	}
	if _, err := Parse([]source{{"f", []byte("_format_version: \"3.0\"\n_info: {dumped_at: yesterday}\n")}}, Kinds(false, true)); err == nil || !strings.Contains(err.Error(), "_info.dumped_at") {
		t.Errorf("%v", err)
	}
}

// TestKept: a secret that the file does not have any more is gone, and what limits an
// application stays, with a warning.
func TestKept(t *testing.T) {
	r := newRig(t, "")
	app := func(rest string) string {
		return file(t, "consumers:\n- username: c\n  oauth2_credentials:\n  - {name: a, client_id: a, client_secret: new-secret, redirect_uris: [\"https://app.example/cb\"]"+rest+"}\n"+
			"services:\n- name: s\n  host: h\n  plugins:\n  - name: oauth2\n    config: {enable_client_credentials: true"+strings.Replace(rest, "secondary_secret: old-secret, scopes: [a]", "issuer: \"https://issuer.example\"", 1)+"}\n")
	}
	r.must(t, "sync", app(", secondary_secret: old-secret, scopes: [a]"))
	out := r.must(t, "sync", app(""))
	if !strings.Contains(out, `-  "secondary_secret": "[masked]"`) || strings.Contains(out, "old-secret") || !strings.Contains(out, "keeps its scopes") {
		t.Error(out)
	}
	if got := r.api(t, "GET", "/oauth2/a", "", 200); strings.Contains(got, "old-secret") || !strings.Contains(got, `"scopes":["a"]`) {
		t.Error(got)
	}
	if out := r.must(t, "diff", "--non-zero-exit-code", app("")); !strings.Contains(out, "Updated: 0\n") {
		t.Error(out)
	}
	if out := r.must(t, "sync", app(", scopes: null")); strings.Contains(out, "keeps its scopes") || strings.Contains(r.api(t, "GET", "/oauth2/a", "", 200), `"scopes":["a"]`) {
		t.Error(out)
	}
}

// TestEnvironmentIsMasked: neither the value from the environment nor the one before is shown,
// whatever its type and in whatever it ends up.
func TestEnvironmentIsMasked(t *testing.T) {
	r := newRig(t, "")
	f := file(t, `services:
- name: s
  url: ${{ env "DECK_URL" }}
  retries: ${{ env "DECK_RETRIES" }}
  plugins:
  - name: request-termination
    config: {message: "${{ env \"DECK_MSG\" }}", status_code: 418}
`)
	t.Setenv("DECK_URL", "https://one.example:9441/token-one")
	t.Setenv("DECK_RETRIES", "4711")
	t.Setenv("DECK_MSG", "message-one")
	all := r.must(t, "sync", f)
	t.Setenv("DECK_URL", "https://two.example:9442/token-two")
	t.Setenv("DECK_RETRIES", "4712")
	t.Setenv("DECK_MSG", "message-two")
	text := r.must(t, "diff", f)
	all += text + r.must(t, "diff", "--json-output", f)
	for _, shown := range []string{"token-", "example", "944", "471", "message-"} {
		if strings.Contains(all, shown) {
			t.Errorf("%s is shown in %s", shown, all)
		}
	}
	if !strings.Contains(text, `"retries": "[masked]"`) || !strings.Contains(text, "updating plugin request-termination for service s") {
		t.Error(text)
	}
}
