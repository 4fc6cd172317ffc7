package golanghost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/filtertest"
	"github.com/meshgate/meshgate/filter/golang"
)

// speaking checks tokens of gRPC requests.
const speaking = `{"route":"r","service":"s","protocol":"grpc","plugins":[{"id":"p","oauth2":{"header":"authorization","hide_credentials":true}}]}`

// shown is a host whose library knows a token in its memory, and configurations of routes.
type shown struct {
	*envoy
	checks, speaks int
}

// token is known, and belongs to the consumer owner.
const token, owner = "t7", "consumer-7"

func newShown(t *testing.T, way way) *shown {
	t.Helper()
	e := startEnvoy(t, stormy, way)
	listener := e.config(false, "{}")
	s := &shown{e, e.merge(listener, e.config(true, `{"chain":`+chain+`}`)), e.merge(listener, e.config(true, `{"chain":`+speaking+`}`))}
	s.passes(s.run(get(s.checks, token))) // which looks the token up
	return s
}

func (s *shown) passes(o *filtertest.Observed) {
	s.t.Helper()
	if o.Outcome != filtertest.Proxied || o.Upstream.Get("x-consumer-id") != owner || o.Upstream.Get("authorization") != "" {
		s.t.Errorf("want it passed on with who it is: %+v", o)
	}
}

// atOnce returns how many requests of those that run sends the front lets pass.
func (s *shown) atOnce(run func()) int {
	s.t.Helper()
	before := s.memory().atOnce
	run()
	return s.memory().atOnce - before
}

// A route for gRPC takes HTTP/2 and what came later, and no older protocol. The front leaves
// HTTP/3 to the official interface.
func TestProtocols(t *testing.T) { both(t, testProtocols) }

func testProtocols(t *testing.T, way way) {
	s := newShown(t, way)
	for p, fronts := range map[protocol]bool{http10: true, http11: true, http2: true, http3: false} {
		n := s.atOnce(func() {
			a := get(s.checks, token)
			a.protocol = p
			s.passes(s.run(a))
		})
		if (n == 1) != (fronts && way == fast) {
			t.Errorf("protocol %d: the front has let %d pass", p, n)
		}
		a := get(s.speaks, token, [2]string{"content-type", "application/grpc"})
		a.protocol = p
		o := s.run(a)
		if p >= http2 {
			s.passes(o)
		} else if said := o.Header.Get("grpc-message"); o.Outcome != filtertest.Refused || !strings.Contains(said, "HTTP2") {
			t.Errorf("protocol %d: %s, %+v", p, said, o)
		}
	}
}

// A request may have more headers, and longer ones, than the front has room for. Whoever
// decides it finds the credential among the last, and lets nothing pass that is forged there.
func TestManyHeaders(t *testing.T) { both(t, testManyHeaders) }

func testManyHeaders(t *testing.T, way way) {
	s := newShown(t, way)
	const room = 16384 // FRONT_BYTES
	for _, c := range []struct{ headers, bytes int }{
		{golang.MaxShown - 1, 0}, {golang.MaxShown, 0}, {golang.MaxShown + 1, 0}, {3 * golang.MaxShown, 0}, {20, room}, {20, room + 1}, {20, 4 * room},
	} {
		a := crowded(s.checks, c.headers, c.bytes)
		n := s.atOnce(func() {
			o := s.run(a)
			s.passes(o)
			for _, forged := range []string{"x-anonymous-consumer", "x_consumer_id"} {
				if len(o.Upstream.Values(forged)) > 0 {
					t.Errorf("%+v: %s passes", c, forged)
				}
			}
			for i := range c.headers - 8 {
				if name := fmt.Sprintf("x-filler-%d", i); o.Upstream.Get(name) == "" {
					t.Fatalf("%+v: %s is lost", c, name)
				}
			}
		})
		if fits := c.headers <= golang.MaxShown && c.bytes <= room; (n == 1) != (fits && way == fast) {
			t.Errorf("%+v: the front has let %d pass", c, n)
		}
	}
	strange := crowded(s.checks, 3*golang.MaxShown, 0)
	strange.headers[len(strange.headers)-3][1] = "Bearer bad"
	s.refused(s.run(strange), 401)
}

// crowded is a request with so many headers, and so many bytes of them if that is not 0.
func crowded(config, headers, bytes int) *asked {
	var fillers [][2]string
	for i := range headers - 8 {
		fillers = append(fillers, [2]string{fmt.Sprintf("x-filler-%d", i), "a"})
	}
	a := get(config, token, append(fillers, [2]string{"x-long", ""})...)
	a.headers = append(a.headers, [2]string{"x-anonymous-consumer", "true"}, [2]string{"x_consumer_id", "root"})
	size := 0
	for _, h := range a.headers {
		size += len(h[0]) + len(h[1])
	}
	if bytes > 0 {
		a.headers[len(fillers)][1] = strings.Repeat("a", bytes-size)
	}
	return a
}

// Trailers may be many, too.
func TestManyTrailers(t *testing.T) { both(t, testManyTrailers) }

func testManyTrailers(t *testing.T, way way) {
	s := newShown(t, way)
	a := get(s.checks, token)
	a.body, a.hasBody = "text", true
	for i := range 3 * golang.MaxShown {
		a.trailers = append(a.trailers, [2]string{fmt.Sprintf("x-filler-%d", i), "a"})
	}
	a.trailers = append(a.trailers, [2]string{"x-consumer-id", "root"}, [2]string{"forwarded", "for=192.0.2.9"})
	s.passes(s.run(a))
	if got := len(s.trailers); got != 3*golang.MaxShown {
		t.Errorf("%d trailers went on", got)
	}
}

// Envoy may log a request before it is shown to the filter and while it waits, and logs it at
// its end, whatever became of it. The filter has no use for any of that: each is decided as it
// would be, by the front where it can be, and nothing is left of it.
func TestLogs(t *testing.T) { both(t, testLogs) }

func testLogs(t *testing.T, way way) {
	s := newShown(t, way)
	logged := func(token string) *asked {
		a := get(s.checks, token)
		a.logged = true
		return a
	}
	const times = 20
	if n := s.atOnce(func() {
		for range times {
			s.passes(s.run(logged(token)))
		}
	}); (n == times) != (way == fast) {
		t.Errorf("the front has let %d of %d pass", n, times)
	}
	s.refused(s.run(logged("bad")), 401)
	s.say("hold 1")
	for n := range 3 {
		if !s.begin(n, logged(fmt.Sprintf("t%d", 10+n))) {
			t.Fatal("it is decided without a look-up")
		}
		s.say("hold 2")
		s.say("log %d", n)
	}
	s.say("cancel 2")
	s.say("hold 0")
	for n := range 2 {
		if o := s.finish(n); o.Outcome != filtertest.Proxied || o.Upstream.Get("x-consumer-id") != fmt.Sprintf("consumer-%d", 10+n) {
			t.Errorf("want it passed on with who it is: %+v", o)
		}
	}
	for id := 1; id <= s.speaks; id++ {
		s.say("destroy %d", id)
	}
	if m := s.memory(); m.made != m.finalised || m.caches != 0 {
		t.Errorf("something is left: %+v", m)
	}
	if said := s.said(); strings.Contains(said, "panic") {
		t.Errorf("something panicked: %s", said)
	}
}
