package agent

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// TestPasswordOfTheRelay: it is random, kept from start to start, and for its owner alone. One
// that others could have read, or that is none, is replaced.
func TestPasswordOfTheRelay(t *testing.T) {
	_, d := newRunDir(t)
	make := func() string {
		t.Helper()
		password, err := d.relayPassword()
		if err != nil || len(password) != 64 || mode(t, d.password) != 0o600 {
			t.Fatalf("%q, %v, mode %o", password, err, mode(t, d.password))
		}
		return password
	}
	first := make()
	if again := make(); again != first {
		t.Errorf("%s became %s", first, again)
	}
	for what, spoil := range map[string]func() error{
		"others could read it": func() error { return os.Chmod(d.password, 0o644) },
		"it is short":          func() error { return os.Truncate(d.password, 20) },
		"it is empty":          func() error { return os.Truncate(d.password, 0) },
		"it is something else": func() error { return os.WriteFile(d.password, []byte(strings.Repeat("x", 64)), 0o600) },
		"it is gone":           func() error { return os.Remove(d.password) },
	} {
		was := make()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got := make(); got == was || strings.Contains(got, "x") {
			t.Errorf("%s: still %s", what, got)
		}
	}
	if _, other := newRunDir(t); true {
		if password, err := other.relayPassword(); err != nil || password == make() {
			t.Errorf("two proxies have %s, %v", password, err)
		}
	}
}

// TestStartWithTheBootstrapOfAnOlderAgent: without the control plane a proxy starts with what
// is on disk. A bootstrap without the password would keep its Envoy out.
func TestStartWithTheBootstrapOfAnOlderAgent(t *testing.T) {
	p := newJoinPlane(t)
	of, _ := p.options(t)
	cp := newControlPlane(t)
	gw, _ := cp.options(t, "gw")
	for what, o := range map[string]Options{"a sidecar": of, "a gateway": gw} {
		a := newAgent(t, o)
		answer := &enrol.Answer{Node: a.NodeID()}
		if o.Sidecar != nil {
			text, err := bootstrap.Render(bootstrap.Config{NodeID: a.NodeID(), Cluster: "web", Relay: a.dir.relay, AdminSocket: a.dir.admin})
			if err != nil {
				t.Fatal(err)
			}
			answer.Bootstrap = text
		}
		if err := a.dir.write(a, answer); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(a.dir.bootstrap)
		if err != nil || !bytes.Contains(want, []byte("value: Bearer "+a.password+"\n")) {
			t.Fatalf("%s: %v\n%s", what, err, want)
		}
		older := bytes.ReplaceAll(want, []byte(a.password), []byte("an older one"))
		if err := os.WriteFile(a.dir.bootstrap, older, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{a.dir.cache, a.dir.settings} {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cp.Close()
		p.server.Close()
		if enrolled, err := a.enrolFirst(t.Context()); enrolled || err != nil {
			t.Errorf("%s: %t, %v", what, enrolled, err)
		}
		if got, err := os.ReadFile(a.dir.bootstrap); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", what, err, got)
		}
	}
}

// TestPasswordIsWithheld: it is found wherever a piece of the stream ends.
func TestPasswordIsWithheld(t *testing.T) {
	const password = "aab"
	for text, want := range map[string]string{
		"": "", "a": "a", "aa": "aa", "aab": redacted, "xaaby": "x" + redacted + "y", "aaab": "a" + redacted, "aabaab": redacted + redacted, "aabaa": redacted + "aa",
		strings.Repeat("a", 100_000) + "b": strings.Repeat("a", 99_998) + redacted, "nothing of it": "nothing of it",
	} {
		for piece, of := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			got, err := io.ReadAll(withhold(io.NopCloser(of(strings.NewReader(text))), password))
			if err != nil || string(got) != want {
				t.Errorf("%.20q in %s: %.40q, %v", text, piece, got, err)
			}
		}
	}
	if _, err := io.ReadAll(withhold(io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), password)); err != io.ErrUnexpectedEOF { //nolint:errorlint // it comes as it is
		t.Error(err)
	}
}
