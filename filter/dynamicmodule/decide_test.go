package main

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// fixture is a host with one listener and one route.
type fixture struct {
	*host.Host
	tokens *hosttest.Tokens
	source uint32
	route  uint32
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{tokens: hosttest.NewTokens("good")}
	f.Host = host.New(host.NewLogger(&hosttest.Log{}), func(*host.Host, *contract.Settings, string) (host.Tokens, error) { return f.tokens, nil })
	var err error
	if f.source, _, err = f.AcquireSource(nil); err != nil {
		t.Fatal(err)
	}
	if f.route, _, err = f.AcquireProgram([]byte(hosttest.Chain)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) decide(q *request, r *result) { decide(f.Host, q, r) }

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
			if r.status != 401 || r.grpc_status != 16 || textOf(&r, r.details) == detailsPrefix || textOf(&r, r.body) == "" {
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
		point(&q.answers[0].packed, string(f.tokens.Packed))
		number(&q.answers[0].packed_len, len(f.tokens.Packed))
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
	if !rewrite(f.Host, f.route, 1, 1, &contentType, &path, &body) {
		t.Fatal("not rewritten")
	}
	if got := string(pathBytes[:path.len]) + " " + string(bodyBytes[:body.len]); got != "/a?b c=d" {
		t.Errorf("left %q", got)
	}
	if rewrite(f.Host, 77, 1, 1, &contentType, &path, &body) {
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

func TestNamesAreTerminated(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a\x00bc\x00": {"a", "bc"}} {
		if got := terminated(names); got != want {
			t.Errorf("%q: %q", names, got)
		}
	}
}
