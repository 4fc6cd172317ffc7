package golang

import (
	"cmp"
	"strings"
	"testing"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noCallbacks marks the configuration of a listener.
type noCallbacks struct{ api.ConfigCallbackHandler }

// What a request calls, under names that leave room for methods.
type (
	handler interface{ api.FilterCallbackHandler }
	decoder interface{ api.DecoderFilterCallbacks }
	info    interface{ api.StreamInfo }
	headers interface{ api.RequestHeaderMap }
)

// envoy is Envoy's side of one request. Methods that the filter has no use for panic.
type envoy struct {
	handler
	decoder
	info
	headers
	sent map[string][]string
	set  map[string]string
	// fault has a call panic, and says with what.
	fault, says string
	// answers receives the status of a reply, or 0 if the request goes on.
	answers chan int
	details string // of the reply
}

func newEnvoy(token string) *envoy {
	return &envoy{set: map[string]string{}, answers: make(chan int, 8),
		sent: map[string][]string{":path": {"/"}, ":method": {"GET"}, ":scheme": {"http"}, "authorization": {"Bearer " + token}, "x-consumer-id": {"root"}}}
}

func (e *envoy) called(name string) {
	if e.fault == name {
		panic(cmp.Or(e.says, "injected into "+name))
	}
}

func (e *envoy) StreamInfo() api.StreamInfo                         { e.called("StreamInfo"); return e }
func (e *envoy) DecoderFilterCallbacks() api.DecoderFilterCallbacks { return e }
func (e *envoy) Protocol() (string, bool)                           { return "HTTP/1.1", true }
func (e *envoy) GetProperty(string) (string, error)                 { return "7", nil }
func (e *envoy) DownstreamSslConnection() api.SslConnection         { return nil }
func (e *envoy) DownstreamRemoteAddress() string                    { return "192.0.2.1:1" }
func (e *envoy) GetAllHeaders() map[string][]string                 { e.called("GetAllHeaders"); return e.sent }
func (e *envoy) Set(name, value string)                             { e.called("Set"); e.set[name] = value }
func (e *envoy) Del(name string)                                    { e.called("Del"); e.set[name] = "" }
func (e *envoy) Continue(api.StatusType)                            { e.called("Continue"); e.answers <- 0 }
func (e *envoy) SendLocalReply(status int, _ string, _ map[string][]string, _ int64, details string) {
	e.called("SendLocalReply")
	e.details = details
	e.answers <- status
}

// fixture is a filter with a token cache that knows the token "good".
type fixture struct {
	t      testing.TB
	host   *host.Host
	log    *hosttest.Log
	tokens *hosttest.Tokens
	config *config
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOf(t, hosttest.Chain)
}

// inBody is a chain that looks for tokens in bodies, too.
const inBody = `{"route":"r","service":"s","plugins":[{"id":"p","oauth2":{"header":"authorization","in_body":true}}]}`

func newFixtureOf(t testing.TB, chain string) *fixture {
	t.Helper()
	return newFixtureFrom(t, "{}", `{"chain":`+chain+`}`)
}

// newFixtureFrom makes a filter from what a listener and a route say.
func newFixtureFrom(t testing.TB, ofListener, ofRoute string) *fixture {
	t.Helper()
	f := &fixture{t: t, log: &hosttest.Log{}, tokens: hosttest.NewTokens("good")}
	f.host = host.New(host.NewLogger(f.log), func(*host.Host, *contract.Settings, string) (host.Tokens, error) { return f.tokens, nil })
	p := NewParser(f.host)
	parse := func(text string, callbacks api.ConfigCallbackHandler) any {
		message, err := anypb.New(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Parse(message, callbacks)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	listener, route := parse(ofListener, noCallbacks{}), parse(ofRoute, nil)
	f.config = p.Merge(listener, route).(*config)
	for _, c := range []any{listener, route} {
		c.(*config).Destroy()
	}
	return f
}

// start shows a request to the filter.
func (f *fixture) start(e *envoy) (api.StreamFilter, api.StatusType) {
	s := NewFactory(f.host)(f.config, e)
	return s, s.DecodeHeaders(e, true)
}

// end gives the configuration back, and waits for what the host has begun.
func (f *fixture) end() {
	f.config.Destroy()
	f.host.Wait()
}

// Whatever panics, the request is refused or already gone, and what is called about it is
// logged.
func TestPanicsRefuse(t *testing.T) {
	for _, fault := range []string{"GetAllHeaders", "StreamInfo", "Set", "Del"} {
		f := newFixture(t)
		e := newEnvoy("good")
		e.fault = fault
		s, status := f.start(e)
		if status != api.LocalReply || len(e.answers) != 1 || <-e.answers != 503 {
			t.Errorf("%s: status %d", fault, status)
		}
		if !strings.Contains(f.log.Text(), "injected into "+fault) {
			t.Errorf("%s is not logged: %s", fault, f.log.Text())
		}
		s.OnDestroy(api.Normal)
		f.end()
	}
}

// Where each route says whether it has a chain, one that says nothing is refused.
func TestRoutesThatSayNothing(t *testing.T) {
	const marked = `{"listener":{"marked":true}}`
	for _, c := range []struct {
		listener, route string
		passes          bool
	}{
		{marked, `{}`, false},
		{marked, `{"disabled":true}`, true},
		{marked, `{"chain":` + hosttest.Chain + `}`, true},
		{`{}`, `{}`, true},
	} {
		f := newFixtureFrom(t, c.listener, c.route)
		e := newEnvoy("good")
		s, status := f.start(e)
		if passes := status == api.Continue; passes != c.passes {
			t.Errorf("%s in %s: status %d", c.route, c.listener, status)
		}
		if !c.passes && e.details != detailsPrefix+string(contract.ReasonRouteUnmarked) {
			t.Errorf("%s in %s: refused because of %q", c.route, c.listener, e.details)
		}
		front := &Front{host: f.host, configs: map[uint64]*config{1: f.config}}
		edits := &Edits{}
		if front.Pass(1, shown(":path", "/", "authorization", "Bearer good"), false, true, make([]byte, engine.BufferSize), edits) != c.passes {
			t.Errorf("%s in %s: the front lets pass otherwise", c.route, c.listener)
		}
		s.OnDestroy(api.Normal)
		f.end()
	}
}

// A panic in a goroutine would end Envoy. Without any way to answer, it is logged.
func TestPanicsOfGoroutines(t *testing.T) {
	for fault, answers := range map[string]int{"Set": 1, "Continue": 1, "SendLocalReply": 0} {
		f := newFixture(t)
		e := newEnvoy("new")
		e.fault = fault
		answer := contract.Found
		if fault == "SendLocalReply" {
			answer = contract.Unknown
		}
		f.tokens.Resolve = func(done func(contract.Answer, []byte)) { done(answer, f.tokens.Packed) }
		s, status := f.start(e)
		f.host.Wait()
		if status != api.Running || len(e.answers) != answers {
			t.Fatalf("%s: status %d, %d answers", fault, status, len(e.answers))
		}
		if answers == 1 && <-e.answers != 503 {
			t.Errorf("%s: it is not refused", fault)
		}
		if !strings.Contains(f.log.Text(), "injected into "+fault) {
			t.Errorf("%s is not logged: %s", fault, f.log.Text())
		}
		s.OnDestroy(api.Normal)
		f.end()
	}
}

// Envoy refuses calls about a stream that it is destroying before it says so. That is no fault.
func TestCallsDuringTheEnd(t *testing.T) {
	for _, says := range []string{streamDestroyed, streamFinished} {
		f := newFixture(t)
		f.tokens.Resolve = func(done func(contract.Answer, []byte)) { done(contract.Found, f.tokens.Packed) }
		e := newEnvoy("new")
		e.fault, e.says = "Set", says
		s, _ := f.start(e)
		f.host.Wait()
		if len(e.answers) != 0 || strings.Contains(f.log.Text(), "panic") {
			t.Errorf("%d answers, log %s", len(e.answers), f.log.Text())
		}
		s.OnDestroy(api.Terminate)
		f.end()
	}
}

// A stream that is destroyed before its answer arrives gives the look-up up; the answer
// touches nothing. Its end may be told twice.
func TestStreamsThatGo(t *testing.T) {
	f := newFixture(t)
	asked, left := make(chan func(contract.Answer, []byte), 1), make(chan struct{}, 1)
	f.tokens.Resolve = func(done func(contract.Answer, []byte)) { asked <- done }
	f.tokens.GivenUp = func() { left <- struct{}{} }
	e := newEnvoy("new")
	s, status := f.start(e)
	if status != api.Running {
		t.Fatalf("status %d", status)
	}
	done := <-asked
	s.OnDestroy(api.Terminate)
	s.OnDestroy(api.Terminate)
	<-left
	done(contract.Found, f.tokens.Packed)
	f.host.Wait()
	if len(e.answers) != 0 || len(e.set) != 0 || strings.Contains(f.log.Text(), "panic") {
		t.Errorf("%d answers, edits %v, log %s", len(e.answers), e.set, f.log.Text())
	}
	f.end()
}

// A request holds its configuration: it may be destroyed, even twice, and the token cache
// is closed when the last request has gone.
func TestConfigurationsThatGo(t *testing.T) {
	f := newFixture(t)
	asked := make(chan func(contract.Answer, []byte), 1)
	f.tokens.Resolve = func(done func(contract.Answer, []byte)) { asked <- done }
	e := newEnvoy("new")
	s, _ := f.start(e)
	done := <-asked
	f.config.Destroy()
	f.config.Destroy()
	done(contract.Found, f.tokens.Packed)
	if got := <-e.answers; got != 0 || e.set["x-consumer-id"] != "consumer-1" {
		t.Errorf("answer %d, edits %v", got, e.set)
	}
	select {
	case <-f.tokens.Closed:
		t.Error("the token cache is closed under a request")
	default:
	}
	s.OnDestroy(api.Normal)
	<-f.tokens.Closed
	late := newEnvoy("good")
	if _, status := f.start(late); status != api.LocalReply || <-late.answers != 503 {
		t.Errorf("a request begins with a configuration that is gone: status %d", status)
	}
	f.host.Wait()
}

// BenchmarkDecided is one request whose token is known, from its headers to its end. Envoy's
// side is a stand-in that allocates nothing itself: what the official interface allocates to
// copy headers and to keep the request comes on top.
func BenchmarkDecided(b *testing.B) {
	f := newFixture(b)
	e := newEnvoy("good")
	b.ReportAllocs()
	for b.Loop() {
		s, status := f.start(e)
		if status != api.Continue {
			b.Fatalf("status %d", status)
		}
		s.OnDestroy(api.Normal)
	}
	f.end()
}
