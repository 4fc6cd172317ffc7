package main

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

const chain = `{"route":"r","service":"s","issues":true,"plugins":[{"id":"plugin-1","oauth2":{"header":"authorization","hide_credentials":true,"in_body":true}}]}`

// memory is a log that tests can read.
type memory struct {
	mu    sync.Mutex
	lines []string
}

func (m *memory) enabled(level int) bool { return level >= envoyInfo }

func (m *memory) write(level int, line []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, string(rune('0'+level))+" "+string(line))
}

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.lines, "\n")
}

// known is a token cache with one token in its first level.
type known struct {
	hash   contract.Hash
	packed []byte
	closed chan struct{}
	// resolve replaces the deeper levels.
	resolve func(done func(contract.Answer, []byte))
	// givenUp hears that a look-up was given up; it may be nil.
	givenUp func()
}

func newKnown(token string) *known {
	r := contract.Record{Version: 1, Service: "s", Credential: contract.Credential{ID: "c", ClientID: "client-1"},
		Consumer: &contract.Consumer{ID: "consumer-1", Username: "alice"}}
	return &known{hash: contract.HashToken([]byte(token)), packed: r.Pack(nil), closed: make(chan struct{})}
}

func (k *known) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if hash != k.hash {
		if hash == contract.HashToken([]byte("bad")) {
			return 0, contract.Unknown
		}
		return 0, contract.Miss
	}
	return copy(dst, k.packed), contract.Found
}

func (k *known) ResolveFor(_ tokencache.Source, _ contract.Hash, _ string, done func(contract.Answer, []byte)) (giveUp func()) {
	k.resolve(done)
	return func() {
		if k.givenUp != nil {
			k.givenUp()
		}
	}
}
func (k *known) Close() { close(k.closed) }

// fixture is a module with one listener and one route.
type fixture struct {
	*module
	log    *memory
	tokens *known
	source uint32
	route  uint32
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{log: &memory{}, tokens: newKnown("good")}
	f.module = newModule(newLogger(f.log), func(*module, *contract.Settings, string) (tokens, error) { return f.tokens, nil })
	var err error
	if f.source, _, err = f.acquireSource(nil); err != nil {
		t.Fatal(err)
	}
	if f.route, _, err = f.acquireProgram([]byte(chain)); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask fills a request; the strings must outlive it.
func (f *fixture) ask(path, credential string) *request {
	q := &request{headers: 1}
	number(&q.program, f.route)
	number(&q.source, f.source)
	show(&q.path, path)
	show(&q.values[0], credential)
	if credential != "" {
		q.present = 1
	}
	return q
}

// show points a text at a string.
func show(t *text, s string) {
	point(&t.ptr, s)
	number(&t.len, len(s))
}

func narrow[C ~uint8](member *C, v uint8) { *member = C(v) }

// number and point set members whose C types a test file cannot name.
func number[C ~uint32 | ~uint64, G uint32 | int](member *C, v G) { *member = C(v) }

func point[C any](member **C, s string) { *member = (*C)(unsafe.Pointer(unsafe.StringData(s))) }

func textOf(r *result, s span) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))[s.off : s.off+s.len])
}

func TestDecide(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct {
		name, path, credential string
		want                   engine.Action
	}{
		{"good token", "/", "Bearer good", engine.Continue},
		{"unknown token", "/", "Bearer other", engine.Lookup},
		{"bad token", "/", "Bearer bad", engine.Refuse},
		{"no token", "/", "", engine.NeedHeaders},
		{"token in the query", "/?access_token=good", "", engine.Continue},
		{"issuing", "/x/oauth2/token", "", engine.Issue},
	} {
		var r result
		f.decide(f.ask(tt.path, tt.credential), &r)
		if engine.Action(r.action) != tt.want {
			t.Errorf("%s: action %d, want %d", tt.name, r.action, tt.want)
		}
		switch tt.want {
		case engine.Continue:
			if got := textOf(&r, r.identity[contract.HeaderConsumerID]); got != "consumer-1" || uint32(r.remove)+uint32(r.hide_query) != 1 {
				t.Errorf("%s: consumer %q, hidden %v", tt.name, got, r.remove)
			}
		case engine.Lookup, engine.Issue:
			if got := textOf(&r, r.plugin); got != "plugin-1" {
				t.Errorf("%s: plugin %q", tt.name, got)
			}
		case engine.Refuse:
			if r.status != 401 || r.grpc_status != 16 || textOf(&r, r.details) == "meshgate_" || textOf(&r, r.body) == "" {
				t.Errorf("%s: status %d, grpc %d, details %q", tt.name, r.status, r.grpc_status, textOf(&r, r.details))
			}
		}
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	f := newFixture(t)
	r := &result{}
	for _, credential := range []string{"Bearer good", "Bearer other", ""} {
		q := f.ask("/some/path?with=query&access_token=good", credential)
		if n := testing.AllocsPerRun(1000, func() { f.decide(q, r) }); n != 0 {
			t.Errorf("credential %q: %v allocations", credential, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	f := newFixture(b)
	q, r := f.ask("/some/path", "Bearer good"), &result{}
	b.ReportAllocs()
	for b.Loop() {
		f.decide(q, r)
	}
}

func TestAnswersDecide(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct {
		name   string
		token  string
		answer contract.Answer
		action engine.Action
		status int
	}{
		{"found", "new", contract.Found, engine.Continue, 0},
		{"unknown", "new", contract.Unknown, engine.Refuse, 401},
		{"unavailable", "new", contract.Unavailable, engine.Refuse, 503},
		{"miss counts as unavailable", "new", contract.Miss, engine.Refuse, 503},
		{"another token", "other", contract.Found, engine.Lookup, 0},
		{"first level still answers", "other", contract.Unknown, engine.Continue, 0},
	} {
		var r result
		credential := "Bearer new"
		if tt.name == "first level still answers" {
			credential = "Bearer good"
		}
		hash := contract.HashToken([]byte(tt.token))
		q := f.ask("/", credential)
		q.answered = 1
		point(&q.answers[0].hash, string(hash[:]))
		point(&q.answers[0].packed, string(f.tokens.packed))
		number(&q.answers[0].packed_len, len(f.tokens.packed))
		narrow(&q.answers[0].answer, uint8(tt.answer))
		f.decide(q, &r)
		if engine.Action(r.action) != tt.action || int(r.status) != tt.status {
			t.Errorf("%s: action %d, status %d", tt.name, r.action, r.status)
		}
	}
}

// TestRewriteShortens checks what the front relies on: in place, shorter, or not
// at all.
func TestRewriteShortens(t *testing.T) {
	f := newFixture(t)
	var contentType, path, body text
	pathBytes, bodyBytes := []byte("/a?access_token=x&b"), []byte("access_token=x&c=d")
	show(&contentType, "application/x-www-form-urlencoded")
	show(&path, unsafe.String(&pathBytes[0], len(pathBytes)))
	show(&body, unsafe.String(&bodyBytes[0], len(bodyBytes)))
	if !f.rewrite(f.route, 1, 1, &contentType, &path, &body) {
		t.Fatal("not rewritten")
	}
	if got := string(pathBytes[:path.len]) + " " + string(bodyBytes[:body.len]); got != "/a?b c=d" {
		t.Errorf("left %q", got)
	}
	if f.rewrite(77, 1, 1, &contentType, &path, &body) {
		t.Error("a program that is not there has rewritten")
	}
}

func TestHandlesThatAreNotInUseRefuse(t *testing.T) {
	f := newFixture(t)
	for _, handle := range []uint32{0, 77, 1 << 31} {
		var r result
		q := f.ask("/", "Bearer good")
		number(&q.program, handle)
		f.decide(q, &r)
		q = f.ask("/", "Bearer good")
		number(&q.source, handle)
		f.decide(q, &r)
		if engine.Action(r.action) != engine.Refuse || r.status != 0 {
			t.Errorf("handle %d: action %d", handle, r.action)
		}
	}
}

func TestRefusalThatDoesNotFitKeepsItsStatus(t *testing.T) {
	var r result
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))
	writeRefusal(&r, buf, 0, &engine.Refusal{Status: 401, GRPCStatus: 16, Body: strings.Repeat("x", len(buf)),
		Headers: [][2]string{{"a", "b"}, {"c", strings.Repeat("x", len(buf))}}})
	if r.status != 401 || r.pairs != 1 || r.body.len != 0 {
		t.Errorf("status %d, %d headers, body of %d", r.status, r.pairs, r.body.len)
	}
}

// Who asked is for the log: it stays beside a refusal and makes room for one that
// would not fit.
func TestRefusalSaysWhoWhereThereIsRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		body int
		who  string
	}{"room": {100, "alice"}, "no room": {len(result{}.buffer) - 100, ""}} {
		var r result
		buf := unsafe.Slice((*byte)(unsafe.Pointer(&r.buffer[0])), len(r.buffer))
		copy(buf[90:], "alice")
		v := engine.Verdict{}
		v.Headers[contract.HeaderConsumerUsername] = contract.Span{Off: 90, Len: 5}
		body := strings.Repeat("x", tc.body)
		writeRefusal(&r, buf, writeIdentity(&r, &v), &engine.Refusal{Status: 401, Reason: "x", Body: body})
		if who := textOf(&r, r.identity[contract.HeaderConsumerUsername]); who != tc.who || textOf(&r, r.body) != body {
			t.Errorf("%s: who %q, body of %d", name, who, r.body.len)
		}
	}
}

func TestSourcesAreSharedAndClosedOnce(t *testing.T) {
	f := newFixture(t)
	again, _, err := f.acquireSource([]byte(`{"listener_strips":true}`))
	if err != nil || again != f.source {
		t.Fatalf("same settings: handle %d, want %d (%v)", again, f.source, err)
	}
	other, _, err := f.acquireSource([]byte(`{"settings":{"redis":{"url":"redis://a"},"cache":{}}}`))
	if err != nil || other == f.source {
		t.Fatalf("other settings: handle %d (%v)", other, err)
	}
	f.releaseSource(f.source)
	select {
	case <-f.tokens.closed:
		t.Fatal("closed while in use")
	default:
	}
	f.releaseSource(f.source)
	<-f.tokens.closed
	if f.sources.get(f.source) != nil {
		t.Error("the handle is still good")
	}
	f.background.Wait()
	for _, bad := range []string{"{", `{"listner_strips":true}`, `{"settings":{"cache":{}}}`} {
		if _, _, err := f.acquireSource([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestProgramsAreInterned(t *testing.T) {
	f := newFixture(t)
	second, program, err := f.acquireProgram([]byte(chain))
	if err != nil || terminated(program.Headers()) != "authorization\x00:method\x00content-type\x00content-length\x00upgrade\x00" || f.interner.Len() != 1 {
		t.Fatalf("headers %q, %d programs (%v)", program.Headers(), f.interner.Len(), err)
	}
	broken, _, err := f.acquireProgram([]byte("{"))
	if err != nil || !strings.Contains(f.log.text(), "unusable") {
		t.Fatalf("broken chain: %v, log %q", err, f.log.text())
	}
	for _, h := range []uint32{second, broken, f.route, f.route, 0} {
		f.releaseProgram(h)
	}
	if f.interner.Len() != 0 {
		t.Errorf("%d programs are left", f.interner.Len())
	}
}

// end is what a look-up came to.
type end struct {
	answer contract.Answer
	packed string
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
			f.tokens.resolve = tt.resolve
			handle := f.source
			if !tt.handle {
				handle = 0
			}
			got := make(chan end, 2)
			patience := time.Minute // what answers is not to be late on a busy machine
			if tt.name == "never answered" {
				patience = 10 * time.Millisecond
			}
			f.resolve(handle, tokencache.Source{}, contract.Hash{}, "p", patience, func(a contract.Answer, p []byte) { got <- end{a, string(p)} })
			if diff := cmp.Diff(tt.want, <-got, cmp.AllowUnexported(end{})); diff != "" {
				t.Error(diff)
			}
			if len(got) != 0 {
				t.Error("ended twice")
			}
		})
	}
}

// TestNoCacheWithoutAChain keeps listeners whose routes check no tokens from
// holding a link to the control plane.
func TestNoCacheWithoutAChain(t *testing.T) {
	opened := 0
	m := newModule(newLogger(&memory{}), func(*module, *contract.Settings, string) (tokens, error) {
		opened++
		return newKnown("good"), nil
	})
	first, _, err := m.acquireSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	if opened != 0 {
		t.Error("a token cache was opened although no route has a chain")
	}
	if _, _, err := m.acquireProgram([]byte(chain)); err != nil {
		t.Fatal(err)
	}
	if _, a := m.sources.get(first).tokens.Lookup(newKnown("good").hash, make([]byte, contract.MaxPacked)); opened != 1 || a != contract.Found {
		t.Errorf("%d caches after the first chain, which answer %d", opened, a)
	}
	second, _, err := m.acquireSource([]byte(`{"settings":{"redis":{"url":"redis://127.0.0.1:1"},"cache":{}}}`))
	if err != nil || second == first || opened != 2 {
		t.Errorf("%d caches after the second listener: %v", opened, err)
	}
}

func TestLateCache(t *testing.T) {
	f := newFixture(t)
	ready, tries := false, 0
	l := newLateCache(f.module, func() (tokens, error) {
		if tries++; !ready {
			return nil, errors.New("not yet")
		}
		return f.tokens, nil
	})
	f.tokens.resolve = func(done func(contract.Answer, []byte)) { done(contract.Unknown, nil) }
	ask := func() contract.Answer {
		got := make(chan contract.Answer, 1)
		l.ResolveFor(tokencache.Source{}, contract.Hash{}, "p", func(a contract.Answer, _ []byte) { got <- a })
		return <-got
	}
	if a := ask(); a != contract.Unavailable || tries != 1 {
		t.Errorf("answer %d after %d tries", a, tries)
	}
	ready, l.next = true, time.Time{}
	if a := ask(); a != contract.Unknown || tries != 2 {
		t.Errorf("answer %d after %d tries", a, tries)
	}
	if _, a := l.Lookup(f.tokens.hash, make([]byte, contract.MaxPacked)); a != contract.Found {
		t.Errorf("first level answers %d", a)
	}
	l.Close()
	<-f.tokens.closed
	f.background.Wait()
}

func TestPanicsAreLoggedAndRefuse(t *testing.T) {
	f := newFixture(t)
	func() {
		defer f.recovered("test")
		panic("boom")
	}()
	if got := f.log.text(); !strings.Contains(got, "4 msg=\"panic recovered\" where=test panic=boom") {
		t.Errorf("log: %s", got)
	}
}

func TestLogLevelsAndLength(t *testing.T) {
	out := &memory{}
	log := newLogger(out)
	log.Debug("dropped")
	log.With("a", 1).WithGroup("g").Warn("kept", "b", "c")
	log.Error(strings.Repeat("x", 2*maxLogLine))
	got := strings.Split(out.text(), "\n")
	if len(got) != 2 || got[0] != `3 msg=kept a=1 g.b=c` || len(got[1]) != maxLogLine+2 || got[1][0] != '4' {
		t.Errorf("log: %d lines, first %q", len(got), got[0])
	}
}

// TestSettingsOfTheMachineAreTheOnlyOnes: what arrives from elsewhere must not send a file
// of this machine to a control plane of its own choice.
func TestSettingsOfTheMachineAreTheOnlyOnes(t *testing.T) {
	opened := 0
	m := newModule(slog.New(slog.DiscardHandler), func(*module, *contract.Settings, string) (tokens, error) {
		opened++
		return nil, errNoSettings
	})
	const inline = `{"settings":{"control_plane":{"address":"thief:1","ca_file":"/ca","token_file":"/etc/shadow","node":"n"},"cache":{}}}`
	t.Setenv(contract.SettingsEnv, "/run/filter.json")
	if _, _, err := m.acquireSource([]byte(inline)); err == nil || !strings.Contains(err.Error(), contract.SettingsEnv) {
		t.Errorf("inline settings beside a file: %v", err)
	}
	t.Setenv(contract.SettingsEnv, "")
	h, _, err := m.acquireSource([]byte(inline))
	if err != nil {
		t.Fatalf("inline settings alone: %v", err)
	}
	m.releaseSource(h)
	m.background.Wait()
	if opened != 0 {
		t.Errorf("%d caches", opened)
	}
}
