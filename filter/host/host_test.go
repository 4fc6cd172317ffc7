package host

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// fixture is a host with one listener and one route.
type fixture struct {
	*Host
	log    *hosttest.Log
	tokens *hosttest.Tokens
	source uint32
	route  uint32
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{log: &hosttest.Log{}, tokens: hosttest.NewTokens("good")}
	f.Host = New(NewLogger(f.log), func(*Host, *contract.Settings, string) (Tokens, error) { return f.tokens, nil })
	var err error
	if f.source, _, err = f.AcquireSource(nil); err != nil {
		t.Fatal(err)
	}
	if f.route, _, err = f.AcquireProgram([]byte(hosttest.Chain)); err != nil {
		t.Fatal(err)
	}
	return f
}

// end is the outcome of a look-up.
type end struct {
	answer contract.Answer
	packed string
}

func TestSourcesAreSharedAndClosedOnce(t *testing.T) {
	f := newFixture(t)
	again, _, err := f.AcquireSource([]byte(`{"listener_strips":true}`))
	if err != nil || again != f.source {
		t.Fatalf("same settings: handle %d, want %d (%v)", again, f.source, err)
	}
	other, _, err := f.AcquireSource([]byte(`{"settings":{"redis":{"url":"redis://a"},"cache":{}}}`))
	if err != nil || other == f.source {
		t.Fatalf("other settings: handle %d (%v)", other, err)
	}
	f.ReleaseSource(f.source)
	select {
	case <-f.tokens.Closed:
		t.Fatal("closed while in use")
	default:
	}
	f.ReleaseSource(f.source)
	<-f.tokens.Closed
	if f.sources.get(f.source) != nil {
		t.Error("the handle is still good")
	}
	f.Wait()
	for _, bad := range []string{"{", `{"listner_strips":true}`, `{"settings":{"cache":{}}}`} {
		if _, _, err := f.AcquireSource([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestProgramsAreInterned(t *testing.T) {
	f := newFixture(t)
	second, program, err := f.AcquireProgram([]byte(hosttest.Chain))
	if err != nil || strings.Join(program.Headers(), " ") != "authorization :method content-type content-length upgrade" || f.interner.Len() != 1 {
		t.Fatalf("headers %q, %d programs (%v)", program.Headers(), f.interner.Len(), err)
	}
	broken, _, err := f.AcquireProgram([]byte("{"))
	if err != nil || !strings.Contains(f.log.Text(), "unusable") {
		t.Fatalf("broken chain: %v, log %q", err, f.log.Text())
	}
	for _, h := range []uint32{second, broken, f.route, f.route, 0} {
		f.ReleaseProgram(h)
	}
	if f.interner.Len() != 0 {
		t.Errorf("%d programs are left", f.interner.Len())
	}
}

func TestResolveEndsOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handle  bool
		resolve func(done func(contract.Answer, []byte))
		want    end
	}{
		{"answered at once", true, func(done func(contract.Answer, []byte)) { done(contract.Found, []byte("x")) }, end{contract.Found, "x"}},
		{"answered twice", true, func(done func(contract.Answer, []byte)) {
			done(contract.Unknown, nil)
			done(contract.Found, []byte("x"))
		}, end{contract.Unknown, ""}},
		{"never answered", true, func(func(contract.Answer, []byte)) {}, end{contract.Unavailable, ""}},
		{"panics", true, func(func(contract.Answer, []byte)) { panic("boom") }, end{contract.Unavailable, ""}},
		{"no such source", false, nil, end{contract.Unavailable, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.tokens.Resolve = tt.resolve
			handle := f.source
			if !tt.handle {
				handle = 0
			}
			got := make(chan end, 2)
			patience := time.Minute // an answer must not be late on a busy machine
			if tt.name == "never answered" {
				patience = 10 * time.Millisecond
			}
			f.Resolve(handle, tokencache.Asker{}, contract.Hash{}, "p", patience, func(a contract.Answer, p []byte) { got <- end{a, string(p)} })
			if diff := cmp.Diff(tt.want, <-got, cmp.AllowUnexported(end{})); diff != "" {
				t.Error(diff)
			}
			if len(got) != 0 {
				t.Error("ended twice")
			}
		})
	}
}

// TestNoCacheWithoutAChain: listeners whose routes check no tokens hold no link to the
// control plane.
func TestNoCacheWithoutAChain(t *testing.T) {
	opened := 0
	m := New(NewLogger(&hosttest.Log{}), func(*Host, *contract.Settings, string) (Tokens, error) {
		opened++
		return hosttest.NewTokens("good"), nil
	})
	first, _, err := m.AcquireSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	if opened != 0 {
		t.Error("a token cache was opened although no route has a chain")
	}
	if _, _, err := m.AcquireProgram([]byte(hosttest.Chain)); err != nil {
		t.Fatal(err)
	}
	if _, a := m.sources.get(first).tokens.Lookup(hosttest.NewTokens("good").Hash, make([]byte, contract.MaxPacked)); opened != 1 || a != contract.Found {
		t.Errorf("%d caches after the first chain, which answer %d", opened, a)
	}
	second, _, err := m.AcquireSource([]byte(`{"settings":{"redis":{"url":"redis://127.0.0.1:1"},"cache":{}}}`))
	if err != nil || second == first || opened != 2 {
		t.Errorf("%d caches after the second listener: %v", opened, err)
	}
}

func TestLateCache(t *testing.T) {
	f := newFixture(t)
	ready, tries := false, 0
	l := newLateCache(f.Host, func() (Tokens, error) {
		if tries++; !ready {
			return nil, errors.New("not yet")
		}
		return f.tokens, nil
	})
	f.tokens.Resolve = func(done func(contract.Answer, []byte)) { done(contract.Unknown, nil) }
	ask := func() contract.Answer {
		got := make(chan contract.Answer, 1)
		l.ResolveFor(tokencache.Asker{}, contract.Hash{}, "p", func(a contract.Answer, _ []byte) { got <- a })
		return <-got
	}
	if a := ask(); a != contract.Unavailable || tries != 1 {
		t.Errorf("answer %d after %d tries", a, tries)
	}
	ready, l.next = true, time.Time{}
	if a := ask(); a != contract.Unknown || tries != 2 {
		t.Errorf("answer %d after %d tries", a, tries)
	}
	if _, a := l.Lookup(f.tokens.Hash, make([]byte, contract.MaxPacked)); a != contract.Found {
		t.Errorf("first level answers %d", a)
	}
	l.Close()
	<-f.tokens.Closed
	f.Wait()
}

func TestPanicsAreLoggedAndRefuse(t *testing.T) {
	f := newFixture(t)
	func() {
		defer f.Recovered("test")
		panic("boom")
	}()
	if got := f.log.Text(); !strings.Contains(got, "4 msg=\"panic recovered\" where=test panic=boom") {
		t.Errorf("log: %s", got)
	}
}

func TestLogLevelsAndLength(t *testing.T) {
	out := &hosttest.Log{}
	log := NewLogger(out)
	log.Debug("dropped")
	log.With("a", 1).WithGroup("g").Warn("kept", "b", "c")
	log.Error(strings.Repeat("x", 2*maxLogLine))
	got := strings.Split(out.Text(), "\n")
	if len(got) != 2 || got[0] != `3 msg=kept a=1 g.b=c` || len(got[1]) != maxLogLine+2 || got[1][0] != '4' {
		t.Errorf("log: %d lines, first %q", len(got), got[0])
	}
}

// TestSettingsOfTheMachineAreTheOnlyOnes: a configuration from elsewhere must not send a
// file of this machine to a control plane of its own choice.
func TestSettingsOfTheMachineAreTheOnlyOnes(t *testing.T) {
	opened := 0
	m := New(slog.New(slog.DiscardHandler), func(*Host, *contract.Settings, string) (Tokens, error) {
		opened++
		return nil, errNoSettings
	})
	const inline = `{"settings":{"control_plane":{"address":"thief:1","ca_file":"/ca","token_file":"/etc/shadow","node":"n"},"cache":{}}}`
	t.Setenv(contract.SettingsEnv, "/run/filter.json")
	if _, _, err := m.AcquireSource([]byte(inline)); err == nil || !strings.Contains(err.Error(), contract.SettingsEnv) {
		t.Errorf("inline settings beside a file: %v", err)
	}
	t.Setenv(contract.SettingsEnv, "")
	h, _, err := m.AcquireSource([]byte(inline))
	if err != nil {
		t.Fatalf("inline settings alone: %v", err)
	}
	m.ReleaseSource(h)
	m.Wait()
	if opened != 0 {
		t.Errorf("%d caches", opened)
	}
}
