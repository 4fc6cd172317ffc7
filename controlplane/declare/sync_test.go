package declare

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// whole is a file with every kind of entity.
const whole = `_format_version: "3.0"
services:
- name: billing
  url: https://billing.internal:9443/v1
  tags: [b, a]
  routes:
  - name: invoices
    paths: [/invoices]
    methods: [GET, POST]
    plugins:
    - name: oauth2
      config: {enable_client_credentials: true, scopes: [email], anonymous: alice}
  plugins:
  - name: key-auth
- name: plain
  host: u1
routes:
- name: alone
  paths: [/alone]
upstreams:
- name: u1
  targets:
  - target: 10.0.0.1
  - target: "[::1]:9000"
    weight: 7
consumers:
- username: alice
  custom_id: c-1
  oauth2_credentials:
  - name: app1
    client_id: app1
    client_secret: s3cret-one
    redirect_uris: [https://app.example/cb]
  - name: app2
    client_id: app2
    client_secret: s3cret-two
    hash_secret: true
    redirect_uris: [https://app.example/cb]
  keyauth_credentials:
  - key: key-one
  - key: key-two
  plugins:
  - name: request-termination
    config: {status_code: 401}
plugins:
- name: request-termination
  service: plain
  consumer: alice
  config: {status_code: 402}
`

// TestSyncIsStable: a second run finds nothing to do, neither with the file nor with a dump,
// and dumps are equal to the byte, also after everything was deleted and made again.
func TestSyncIsStable(t *testing.T) {
	r := newRig(t, "")
	f := file(t, whole)
	out := r.must(t, "sync", f)
	if !strings.HasSuffix(out, "Summary:\n  Created: 16\n  Updated: 0\n  Deleted: 0\n") {
		t.Errorf("%s", out)
	}
	nothing := "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n"
	if out := r.must(t, "sync", f); out != nothing {
		t.Errorf("again: %s", out)
	}
	dump := r.must(t, "dump")
	for range 3 {
		if again := r.must(t, "dump"); again != dump {
			t.Fatalf("another dump:\n%s\n%s", dump, again)
		}
	}
	d := file(t, dump)
	if out := r.must(t, "sync", d); out != nothing {
		t.Errorf("the dump: %s\n%s", out, dump)
	}
	if out := r.must(t, "reset", "--yes"); !strings.Contains(out, "Deleted: 16\n") {
		t.Errorf("reset: %s", out)
	}
	r.must(t, "sync", d)
	if again := r.must(t, "dump"); again != dump {
		t.Errorf("after all:\n%s\n%s", dump, again)
	}
	if out := r.must(t, "diff", f, "--non-zero-exit-code"); out != nothing {
		t.Errorf("the file: %s", out)
	}
	t.Log(dump)
}

// TestProgressOfReading: whoever waits for a large gateway to be read hears how far that is.
func TestProgressOfReading(t *testing.T) {
	r := newRig(t, "")
	f := file(t, "services:\n- {name: a, host: h}\n- {name: b, host: h}\n- {name: c, host: h}\n")
	r.must(t, "sync", f)
	was := clock
	t.Cleanup(func() { clock = was })
	var seconds atomic.Int64
	clock = func() time.Time { return time.Unix(seconds.Add(1), 0) }
	for _, args := range [][]string{{"dump"}, {"diff", f}} {
		if out := r.must(t, args...); !strings.Contains(out, " entities are read so far\n") {
			t.Errorf("%v: %s", args, out)
		}
	}
	clock = func() time.Time { return time.Unix(0, 0) }
	if out := r.must(t, "dump"); strings.Contains(out, "so far") {
		t.Errorf("it says so at once: %s", out)
	}
}
