package golanghost

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// chain checks tokens, and looks for them in bodies, too.
const chain = `{"route":"r","service":"s","plugins":[{"id":"p","oauth2":{"header":"authorization","in_body":true,"hide_credentials":true}}]}`

// fixture is an Envoy with a listener, and a Redis that knows the token "good".
type fixture struct {
	*envoy
	redis    *redistest.Server
	listener int
}

func newFixture(t *testing.T, way way) *fixture {
	t.Helper()
	server := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: server.Address()})
	t.Cleanup(func() { _ = db.Close() })
	record := contract.Record{Version: 1, Service: "s", Credential: contract.Credential{ID: "c", ClientID: "client-1"},
		Consumer: &contract.Consumer{ID: "consumer-1", Username: "alice"}}
	data, err := record.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set(t.Context(), contract.RedisRecordKey("", contract.HashToken([]byte("good"))), data, 0).Err(); err != nil {
		t.Fatal(err)
	}
	e := startEnvoy(t, plugin, way)
	return &fixture{envoy: e, redis: server, listener: e.config(false, listener("redis://"+server.Address()))}
}

// get is a request with a token.
func get(config int, token string, headers ...[2]string) *asked {
	return &asked{config: config, protocol: http11, headers: append(headers, [2]string{":path", "/"}, [2]string{":method", "GET"},
		[2]string{":scheme", "http"}, [2]string{":authority", "host"}, [2]string{"authorization", "Bearer " + token})}
}

// post is a request with a form.
func post(config int, body string, trailers ...[2]string) *asked {
	return &asked{config: config, protocol: http11, body: body, hasBody: true, trailers: trailers, headers: [][2]string{{":path", "/"}, {":method", "POST"},
		{":scheme", "http"}, {":authority", "host"}, {"content-type", "application/x-www-form-urlencoded"}}}
}

func (f *fixture) passes(o *filtertest.Observed) {
	f.t.Helper()
	if o.Outcome != filtertest.Proxied || o.Upstream.Get("x-consumer-id") != "consumer-1" {
		f.t.Errorf("want it passed on with who it is: %+v", o)
	}
}

func (e *envoy) refused(o *filtertest.Observed, status int) {
	e.t.Helper()
	if o.Outcome != filtertest.Refused || o.Status != status {
		e.t.Errorf("want %d: %+v", status, o)
	}
}

// What is nearer to the route counts: a chain, none, and one that is taken away.
func TestConfigurationsAreMerged(t *testing.T) { both(t, testConfigurationsAreMerged) }

func testConfigurationsAreMerged(t *testing.T, way way) {
	f := newFixture(t, way)
	route := func(text string) int { return f.config(true, text) }
	checked, off, nothing := `{"chain":`+chain+`}`, `{"disabled":true}`, `{}`
	for name, c := range map[string]struct {
		host, route string
		checks      bool
	}{
		"nothing":                      {nothing, nothing, false},
		"chain of the route":           {nothing, checked, true},
		"chain of the host":            {checked, nothing, true},
		"taken away on the route":      {checked, off, false},
		"taken away on the host":       {off, nothing, false},
		"taken away and given again":   {off, checked, true},
		"another chain":                {`{"chain":{"route":"h","plugins":[]}}`, checked, true},
		"taken away with its own text": {checked, `{"disabled":true,"chain":` + chain + `}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			at := f.merge(f.merge(f.listener, route(c.host)), route(c.route))
			o := f.run(get(at, "bad", [2]string{"x-consumer-id", "root"}))
			if c.checks {
				f.refused(o, http.StatusUnauthorized)
				f.passes(f.run(get(at, "good", [2]string{"x-consumer-id", "root"})))
				return
			}
			if o.Outcome != filtertest.Proxied || o.Upstream.Get("x-consumer-id") != "" {
				t.Errorf("want it passed on, without what only the filter may say: %+v", o)
			}
		})
	}
}

// A chain that issues hands its requests to nobody but the OAuth server, and says how the
// client has come, whatever the client says.
func TestTokensAreIssuedByTheOAuthServerAlone(t *testing.T) {
	both(t, testTokensAreIssuedByTheOAuthServerAlone)
}

func testTokensAreIssuedByTheOAuthServerAlone(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+strings.Replace(chain, `"service"`, `"issues":true,"service"`, 1)+`}`))
	for _, c := range []struct {
		tls, noOAuth bool
		scheme, want string
	}{{false, false, "https", "http"}, {true, false, "http", "https"}, {true, true, "https", ""}} {
		a := post(at, "grant_type=client_credentials")
		a.tls, a.noOAuth, a.protocol = c.tls, c.noOAuth, http2
		a.headers[0][1], a.headers[2][1] = "/oauth2/token", c.scheme
		a.headers = append(a.headers, [2]string{contract.HeaderOAuthProto, "https"})
		o := f.run(a)
		if said := o.Upstream.Get(contract.HeaderOAuthProto); said != "" {
			t.Errorf("the client says %q of a proxy before it", said)
		}
		if c.noOAuth {
			f.refused(o, http.StatusServiceUnavailable)
		} else if got := o.Upstream.Get(contract.HeaderOAuthScheme); o.Outcome != filtertest.Issued || got != c.want {
			t.Errorf("%+v: %s, %+v", c, got, o)
		}
	}
}

// unreadable are configurations with what Envoy's log says about each.
var unreadable = map[string]string{
	`{"chian":{}}`: "chian",
	`{"chain":`:    "unexpected EOF",
	`{} {}`:        "more behind the JSON object",
}

// A configuration of a listener that cannot be read is refused, and Envoy's log says why.
func TestConfigurationsAreRefused(t *testing.T) { both(t, testConfigurationsAreRefused) }

func testConfigurationsAreRefused(t *testing.T, way way) {
	e := startEnvoy(t, plugin, way)
	refused := maps.Clone(unreadable)
	refused[`{"listener":7}`], refused[`{"listener":{"settings":{"redsi":{}}}}`] = "json:", "redsi"
	for text, want := range refused {
		if id := e.config(false, text); id != 0 {
			t.Errorf("%s is accepted", text)
		}
		if !strings.Contains(e.said(), want) {
			t.Errorf("%s: nothing about %q in the log", text, want)
		}
	}
}

// A configuration of a route that cannot be read refuses its requests, on a host and on a
// route, and Envoy's log says why, once. Envoy would end with the first request if it were
// refused itself.
func TestUnreadableRoutesRefuse(t *testing.T) { both(t, testUnreadableRoutesRefuse) }

func testUnreadableRoutesRefuse(t *testing.T, way way) {
	f := newFixture(t, way)
	texts := maps.Clone(unreadable)
	texts[listener("redis://127.0.0.1:1")] = "not for routes"
	for text, want := range texts {
		said := len(f.said())
		route := f.config(true, text)
		onHost, onRoute := f.merge(f.merge(f.listener, route), f.config(true, `{"chain":`+chain+`}`)), f.merge(f.listener, route)
		for _, at := range []int{onHost, onRoute, onRoute} {
			f.refused(f.run(get(at, "good")), http.StatusServiceUnavailable)
		}
		if n := strings.Count(f.said()[said:], want); n != 1 {
			t.Errorf("%s: %q is in the log %d times: %s", text, want, n, f.said()[said:])
		}
	}
	f.refused(f.run(get(f.merge(f.listener, f.odd()), "good")), http.StatusServiceUnavailable)
	f.passes(f.run(get(f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`)), "good")))
}

// odd is the configuration of a route that is a message of another type.
func (f *fixture) odd() int {
	f.t.Helper()
	message, err := anypb.New(durationpb.New(0))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.message(true, message)
}

// A chain that cannot be used refuses its route, and the others stay.
func TestUnusableChainsRefuse(t *testing.T) { both(t, testUnusableChainsRefuse) }

func testUnusableChainsRefuse(t *testing.T, way way) {
	f := newFixture(t, way)
	for _, text := range []string{"null", "7", `{}`, `{"route":"r","plugins":[{"id":"p"}]}`} {
		f.refused(f.run(get(f.merge(f.listener, f.config(true, `{"chain":`+text+`}`)), "good")), http.StatusServiceUnavailable)
	}
	f.passes(f.run(get(f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`)), "good")))
}

// Trailers lose what clients may not say, beside a body that is read and beside one that is not.
func TestTrailers(t *testing.T) { both(t, testTrailers) }

func testTrailers(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`))
	said, other := [2]string{"x-consumer-id", "root"}, [2]string{"x-other", "1"}
	forwarded := [2]string{"forwarded", "for=192.0.2.9"}
	header := get(at, "good")
	header.body, header.hasBody, header.trailers = "text", true, [][2]string{said, forwarded, other}
	for name, a := range map[string]*asked{"body is read": post(at, "access_token=good", said, forwarded, other), "body is not read": header} {
		f.passes(f.run(a))
		if f.trailers.Get(said[0]) != "" || f.trailers.Get(forwarded[0]) != "" || f.trailers.Get(other[0]) != "1" {
			t.Errorf("%s: trailers %v", name, f.trailers)
		}
	}
	f.refused(f.run(post(at, "", said)), http.StatusUnauthorized) // trailers come where a body was waited for
}

// A request that its client has given up is not touched any more, and the same token is
// decided for the next one. The host frees what the library has finalised.
func TestStreamsThatGo(t *testing.T) { both(t, testStreamsThatGo) }

func testStreamsThatGo(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`))
	f.redis.Freeze(t)
	for n := range 3 {
		if !f.begin(n, get(at, "good")) {
			t.Fatal("it is decided without a look-up")
		}
	}
	for n := range 2 {
		f.say("cancel %d", n)
	}
	f.late()
	f.redis.Thaw(t)
	f.passes(f.finish(2))
	f.passes(f.run(get(at, "good")))
	if n := f.late(); n != 0 {
		t.Errorf("%d calls about streams that had gone", n)
	}
	if said := f.said(); strings.Contains(said, "panic") {
		t.Errorf("a stream that goes is taken for a fault: %s", said)
	}
}

// Requests that are under way when their configuration is replaced are decided by it.
func TestConfigurationsAreReplaced(t *testing.T) { both(t, testConfigurationsAreReplaced) }

func testConfigurationsAreReplaced(t *testing.T, way way) {
	f := newFixture(t, way)
	route := f.config(true, `{"chain":`+chain+`}`)
	at := f.merge(f.listener, route)
	f.redis.Freeze(t)
	for n, token := range []string{"good", "bad"} {
		if !f.begin(n, get(at, token)) {
			t.Fatal("it is decided without a look-up")
		}
	}
	for _, id := range []int{at, at, route, f.listener} { // the first one twice
		f.say("destroy %d", id)
	}
	f.redis.Thaw(t)
	f.passes(f.finish(0))
	f.refused(f.finish(1), http.StatusUnauthorized)
	// The last request has closed the token cache, and the next configuration opens one.
	f.listener = f.config(false, listener("redis://"+f.redis.Address()))
	f.passes(f.run(get(f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`)), "good")))
}

// A fault refuses its request, on the worker and in a goroutine, and the process goes on.
func TestFaultsRefuse(t *testing.T) { both(t, testFaultsRefuse) }

func testFaultsRefuse(t *testing.T, way way) {
	e := startEnvoy(t, faulty, way)
	at := e.merge(e.config(false, "{}"), e.config(true, `{"chain":`+chain+`}`))
	for token, want := range map[string]string{"first": "injected on the worker", "other": "injected in a goroutine"} {
		for range 2 {
			e.refused(e.run(get(at, token)), http.StatusServiceUnavailable)
		}
		if !strings.Contains(e.said(), want) {
			t.Errorf("nothing about %q in the log", want)
		}
	}
	// So does what Envoy passes on of a configuration that could not be merged.
	e.refused(e.run(get(e.merge(at, e.merge(at, at)), "first")), http.StatusServiceUnavailable)
}

// A token that is revoked while it is looked up is refused, although the look-up has read that it
// is good.
func TestRevokedDuringLookup(t *testing.T) { both(t, testRevokedDuringLookup) }

func testRevokedDuringLookup(t *testing.T, way way) {
	e := startEnvoy(t, stormy, way)
	at := e.merge(e.config(false, "{}"), e.config(true, `{"chain":`+chain+`}`))
	e.say("hold 1")
	if !e.begin(0, get(at, "t7")) {
		t.Fatal("it is decided without a look-up")
	}
	e.say("hold 2")
	e.say("set 7 0")
	e.say("hold 0")
	e.refused(e.finish(0), http.StatusUnauthorized)
	e.refused(e.run(get(at, "t7")), http.StatusUnauthorized)
	e.say("set 7 1")
	if o := e.run(get(at, "t7")); o.Outcome != filtertest.Proxied {
		t.Errorf("want it passed on when it is good again: %+v", o)
	}
}

// Many who come with one token wait for the same look-up, and each gets its answer. The next one
// needs none.
func TestHerd(t *testing.T) { both(t, testHerd) }

func testHerd(t *testing.T, way way) {
	const herd = 60
	e := startEnvoy(t, stormy, way)
	at := e.merge(e.config(false, "{}"), e.config(true, `{"chain":`+chain+`}`))
	e.say("hold 1")
	for n := range herd {
		if !e.begin(n, get(at, "t3")) {
			t.Fatal("it is decided without a look-up")
		}
	}
	e.say("hold 2")
	e.say("hold 0")
	for n := range herd {
		if o := e.finish(n); o.Outcome != filtertest.Proxied || o.Upstream.Get("x-consumer-id") != "consumer-3" {
			t.Errorf("request %d: want it passed on with who it is: %+v", n, o)
		}
	}
	if e.begin(0, get(at, "t3")) {
		t.Error("a token that was looked up waits again")
	}
	if o := e.finish(0); o.Outcome != filtertest.Proxied {
		t.Errorf("want it passed on: %+v", o)
	}
}

// A Redis that does not answer any more refuses tokens for the time being.
func TestRedisStopped(t *testing.T) { both(t, testRedisStopped) }

func testRedisStopped(t *testing.T, way way) {
	f := newFixture(t, way)
	at := f.merge(f.listener, f.config(true, `{"chain":`+chain+`}`))
	f.passes(f.run(get(at, "good")))
	f.redis.Freeze(t)
	o := f.run(get(at, "good"))
	f.refused(o, http.StatusServiceUnavailable)
	if o.Header.Get("retry-after") == "" {
		t.Errorf("want it told when to come again: %+v", o)
	}
	f.redis.Thaw(t)
	f.passes(f.run(get(at, "good")))
}
