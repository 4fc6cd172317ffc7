package golanghost

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// envoy is the host of testdata in the place of Envoy, with the library.
type envoy struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
	log string // the file of what it says beside its answers
	pid int
	// trailers are those of the last request that was passed on.
	trailers http.Header
}

// The library, one whose token cache panics, and one whose token cache the host changes.
const (
	plugin = "../../golang/plugin"
	faulty = "./testdata/faulty"
	stormy = "./testdata/storm"
)

// way is how a library is built: through the official interface alone, or with the front
// before it.
type way bool

const (
	plain way = false
	fast  way = true
)

func (w way) String() string {
	if w == fast {
		return "fast"
	}
	return "plain"
}

// both runs a test with either.
func both(t *testing.T, run func(*testing.T, way)) {
	t.Helper()
	for _, w := range []way{plain, fast} {
		t.Run(w.String(), func(t *testing.T) { run(t, w) })
	}
}

// built has what was built for the tests of this package.
var built string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "golanghost")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built = dir
	return m.Run()
}

// library builds a library, once, and returns its path.
func library(t testing.TB, from string, way way) string {
	t.Helper()
	path := filepath.Join(built, filepath.Base(from)+"-"+way.String()+sanitizer(t)+".so")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if way == fast {
		build(t, "../../golang/front/build", from, path)
	} else {
		build(t, "go", "build", "-buildmode=c-shared", "-o", path, from)
	}
	return path
}

// sanitizer is the flag of gcc that has C watched. Benchmarks go without.
func sanitizer(t testing.TB) string {
	if _, ok := t.(*testing.B); ok {
		return "-g"
	}
	return "-fsanitize=address"
}

// host builds the host, once, and returns its path. AddressSanitizer watches what it and
// the library do with memory of C.
func host(t testing.TB) string {
	t.Helper()
	path := filepath.Join(built, "host"+sanitizer(t))
	if _, err := os.Stat(path); err != nil {
		build(t, "gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-rdynamic", sanitizer(t), "-o", path,
			filepath.Join("testdata", "host.c"), "-ldl", "-lpthread")
	}
	return path
}

// startEnvoy runs the host with a library.
func startEnvoy(t testing.TB, from string, way way) *envoy {
	t.Helper()
	cmd := exec.Command(host(t), library(t, from, way)) // it ends when its input does
	// Leaks are looked for by other means: a Go runtime keeps what it has.
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", contract.SettingsEnv+"=")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		err := cmd.Wait()
		text, _ := os.ReadFile(log.Name())
		t.Logf("the host says: %s", text)
		if err != nil {
			t.Errorf("the host: %v", err)
		}
		_ = log.Close()
	})
	return &envoy{t: t, in: in, out: bufio.NewReaderSize(out, 16<<20), log: log.Name(), pid: cmd.Process.Pid}
}

func build(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "CFLAGS=-g "+sanitizer(t)) // of the front
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// said is what the host has said beside its answers. It is there before the answer is.
func (e *envoy) said() string {
	e.t.Helper()
	text, err := os.ReadFile(e.log)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}

// say sends a line and returns the words of the answer.
func (e *envoy) say(format string, args ...any) []string {
	e.t.Helper()
	if _, err := fmt.Fprintf(e.in, format+"\n", args...); err != nil {
		e.t.Fatal(err)
	}
	line, err := e.out.ReadString('\n')
	if err != nil {
		e.t.Fatalf("after %.100s: %v", fmt.Sprintf(format, args...), err)
	}
	return strings.Fields(line)
}

// config has a configuration read, and returns its id.
func (e *envoy) config(route bool, text string) int {
	e.t.Helper()
	message, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		e.t.Fatal(err)
	}
	return e.message(route, message)
}

func (e *envoy) message(route bool, message *anypb.Any) int {
	e.t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.id(e.say("config %d %s", digit(route), dashed(string(data))))
}

func (e *envoy) merge(parent, child int) int {
	e.t.Helper()
	return e.id(e.say("merge %d %d", parent, child))
}

func (e *envoy) id(answer []string) int {
	e.t.Helper()
	if len(answer) != 2 || answer[0] != "config" {
		e.t.Fatalf("answer %q", answer)
	}
	return e.number(answer[1])
}

func (e *envoy) number(text string) int {
	e.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dashed is a text in hexadecimal digits; "-" if it is empty.
func dashed(s string) string {
	if s == "" {
		return "-"
	}
	return hex.EncodeToString([]byte(s))
}

func (e *envoy) plain(word string) string {
	e.t.Helper()
	if word == "-" {
		return ""
	}
	b, err := hex.DecodeString(word)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(b)
}

// protocol is the number that Envoy has for the protocol of a request.
type protocol int

const (
	http10 protocol = iota
	http11
	http2
	http3
)

// asked is how a request is sent.
type asked struct {
	config            int
	protocol          protocol
	tls, noOAuth      bool
	body              string
	hasBody           bool
	open              bool // more of the body is to come, and does not
	logged            bool // Envoy logs it before it is shown
	connection        int
	headers, trailers [][2]string
}

// begin sends a request under a number, and reports whether it waits for something.
func (e *envoy) begin(n int, a *asked) (waits bool) {
	e.t.Helper()
	body := "none"
	if a.hasBody {
		body = dashed(a.body)
	}
	answer := e.say("begin %d %d %d %d %d %d %d %d %s%s%s", n, a.config, a.protocol, digit(a.tls), digit(!a.noOAuth), a.connection, digit(a.open), digit(a.logged), body, list(a.headers), list(a.trailers))
	return answer[0] == "waits"
}

// finish lets a request go on, and returns what came of it.
func (e *envoy) finish(n int) *filtertest.Observed {
	e.t.Helper()
	return e.observe(e.say("finish %d", n))
}

// run sends a request and returns what came of it.
func (e *envoy) run(a *asked) *filtertest.Observed {
	e.t.Helper()
	e.begin(0, a)
	return e.finish(0)
}

// late has what is not used any more finalised, and returns how many calls were about a
// stream that had ended.
func (e *envoy) late() int {
	e.t.Helper()
	return e.number(e.say("collect")[1])
}

func list(headers [][2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, " %d", len(headers))
	for _, h := range headers {
		fmt.Fprintf(&b, " %s %s", dashed(h[0]), dashed(h[1]))
	}
	return b.String()
}

func (e *envoy) observe(words []string) *filtertest.Observed {
	e.t.Helper()
	switch words[0] {
	case "reply":
		header, _ := e.headers(words[5:])
		return &filtertest.Observed{Outcome: filtertest.Refused, Status: e.number(words[1]), Body: e.plain(words[3]), Header: header}
	case "pass":
		header, rest := e.headers(words[3:])
		e.trailers, _ = e.headers(rest)
		o := &filtertest.Observed{Outcome: filtertest.Proxied, Status: http.StatusOK, Sent: e.plain(words[2]), Upstream: header, Path: header.Get(":path")}
		if words[1] == "1" {
			o.Outcome = filtertest.Issued
		}
		for _, pseudo := range []string{":path", ":method", ":scheme", ":authority"} {
			delete(header, http.CanonicalHeaderKey(pseudo))
		}
		return o
	case "nothing":
		return &filtertest.Observed{}
	}
	e.t.Fatalf("answer %q", words)
	return nil
}

func (e *envoy) headers(words []string) (h http.Header, rest []string) {
	h = http.Header{}
	n := e.number(words[0])
	words = words[1:]
	for ; n > 0; n, words = n-1, words[2:] {
		h.Add(e.plain(words[0]), e.plain(words[1]))
	}
	return h, words
}
