package golanghost

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// envoy is the host of testdata in the place of Envoy, with the library.
type envoy struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

// startEnvoy builds the library and its host, with flags of the compiler, and runs them.
func startEnvoy(t *testing.T, flags ...string) *envoy {
	t.Helper()
	dir := t.TempDir()
	library, host := filepath.Join(dir, "libmeshgate-golang.so"), filepath.Join(dir, "host")
	build(t, "go", "build", "-buildmode=c-shared", "-o", library, "../../golang")
	build(t, "gcc", slices.Concat([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-rdynamic", "-o", host}, flags,
		[]string{filepath.Join("testdata", "host.c"), "-ldl", "-lpthread"})...)
	cmd := exec.Command(host, library) // it ends when its input does
	// Leaks are looked for by other means: a Go runtime keeps what it has.
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", contract.SettingsEnv+"=")
	cmd.Stderr = &lines{t: t}
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
		if err := cmd.Wait(); err != nil {
			t.Errorf("the host: %v", err)
		}
	})
	return &envoy{t: t, in: in, out: bufio.NewReaderSize(out, 16<<20)}
}

func build(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// lines logs what the host says beside its answers.
type lines struct{ t *testing.T }

func (l *lines) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
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

// asked is how a request is sent.
type asked struct {
	config                 int
	http2, noOAuth, cancel bool
	body                   string
	hasBody                bool
	headers, trailers      [][2]string
}

// run sends a request and returns what came of it.
func (e *envoy) run(a *asked) *filtertest.Observed {
	e.t.Helper()
	body := "none"
	if a.hasBody {
		body = dashed(a.body)
	}
	return e.observe(e.say("request %d %d %d %d %s%s%s", a.config, digit(a.http2), digit(!a.noOAuth), digit(a.cancel), body, list(a.headers), list(a.trailers)))
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
		header, _ := e.headers(words[3:])
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

// listener is the configuration of a listener that reads records in a Redis.
func listener(redisURL string) string {
	settings, err := json.Marshal(contract.FilterConfig{Settings: &contract.Settings{Redis: &contract.RedisSettings{URL: redisURL}}})
	if err != nil {
		panic(err)
	}
	return `{"listener":` + string(settings) + `}`
}

// The behaviour that all adapters share, also with an authority that is away.
func TestBehaviourTable(t *testing.T) {
	server := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: server.Address()})
	t.Cleanup(func() { _ = db.Close() })
	e := startEnvoy(t, "-fsanitize=address")
	listeners := map[bool]int{false: e.config(false, listener("redis://"+server.Address())), true: e.config(false, listener("redis://127.0.0.1:1"))}
	for _, c := range filtertest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			for i := range c.Tokens {
				data, err := c.Tokens[i].Record.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Set(t.Context(), contract.RedisRecordKey(c.Tokens[i].Hash()), data, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			e.t = t
			o := e.run(requestOf(&c, e.routeOf(listeners[c.Down], c.Chain)))
			for _, d := range c.Check(o) {
				t.Error(d)
			}
		})
	}
}

// routeOf is the configuration of a route with a chain, which may be no JSON at all.
func (e *envoy) routeOf(listener int, chain string) int {
	e.t.Helper()
	text := `{"chain":` + chain + `}`
	if !json.Valid([]byte(chain)) {
		quoted, err := json.Marshal(chain)
		if err != nil {
			e.t.Fatal(err)
		}
		text = `{"chain":` + string(quoted) + `}`
	}
	return e.merge(listener, e.config(true, text))
}

// requestOf is the request of a case as Envoy shows it to a filter.
func requestOf(c *filtertest.Case, config int) *asked {
	a := &asked{config: config, http2: c.Request.HTTP2, body: c.Request.Body, hasBody: c.Request.Body != "" || c.Request.Trailers}
	for name, values := range filtertest.Received(c) {
		for _, v := range values {
			a.headers = append(a.headers, [2]string{strings.ToLower(name), v})
		}
	}
	a.headers = append(a.headers, [2]string{":path", filtertest.Normalise(c.Request.Path)}, [2]string{":scheme", "http"}, [2]string{":authority", c.Name})
	if c.Request.Trailers {
		a.trailers = [][2]string{{"x-trailer", "behind"}}
	}
	return a
}
