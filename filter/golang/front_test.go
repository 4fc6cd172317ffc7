package golang

import (
	"bytes"
	"testing"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// fronted is a front with a configuration of the id 1, whose token cache knows the token "good".
type fronted struct {
	*Front
	config *config
	buf    []byte
	edits  Edits
}

func newFronted(t *testing.T, chain string) *fronted {
	t.Helper()
	h := host.New(host.NewLogger(&hosttest.Log{}), func(*host.Host, *contract.Settings, string) (host.Tokens, error) {
		return hosttest.NewTokens("good"), nil
	})
	f := &fronted{Front: NewFront(h), buf: make([]byte, engine.BufferSize)}
	p := f.Parser()
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
	listener, route := parse("{}", noCallbacks{}), parse(`{"chain":`+chain+`}`, nil)
	f.config = p.Merge(listener, route).(*config)
	f.Made(1)
	for _, c := range []any{listener, route} {
		c.(*config).Destroy()
	}
	t.Cleanup(func() {
		f.Gone(1)
		f.config.Destroy()
		h.Wait()
	})
	return f
}

// shown are headers in memory that may be edited.
func shown(headers ...string) []string {
	all := make([]string, len(headers))
	for i, text := range headers {
		all[i] = string(bytes.Clone([]byte(text)))
	}
	return all
}

func (f *fronted) pass(id uint64, sent []string) bool {
	return f.Pass(id, sent, false, true, f.buf, &f.edits)
}

// A request passes with what is known, and is told who it is.
func TestFrontPasses(t *testing.T) {
	f := newFronted(t, hosttest.Chain)
	sent := shown(":path", "/", ":method", "GET", "x-consumer-id", "root", "authorization", "Bearer good")
	if !f.pass(1, sent) {
		t.Fatal("it does not pass")
	}
	at := f.edits.Headers[contract.HeaderConsumerID]
	if who := string(f.buf[at.Off : at.Off+at.Len]); who != "consumer-1" || !f.edits.Strip || f.edits.Remove[0] != 1<<3 || f.edits.Path != 0 {
		t.Errorf("consumer %q, edits %+v", who, f.edits)
	}
}

// A credential that is hidden goes from the path, too.
func TestFrontHidesInQueries(t *testing.T) {
	f := newFronted(t, hosttest.Chain)
	sent := shown(":method", "GET", ":path", "/a?access_token=good&b=c")
	if !f.pass(1, sent) || f.edits.Path != 2 || sent[3] != "/a?b=c" {
		t.Errorf("edits %+v, path %q", f.edits, sent[3])
	}
}

// Whatever needs more than what is known is for the official interface.
func TestFrontHandsOn(t *testing.T) {
	f := newFronted(t, hosttest.Chain)
	for name, sent := range map[string][]string{
		"unknown":       shown(":path", "/", "authorization", "Bearer bad"),
		"looked up":     shown(":path", "/", "authorization", "Bearer other"),
		"no credential": shown(":path", "/"),
		"no header":     shown(),
		"issued":        shown(":path", "/oauth2/token", ":method", "POST"),
	} {
		if f.pass(1, sent) {
			t.Errorf("%s: it passes: %+v", name, f.edits)
		}
	}
	good := shown(":path", "/", "authorization", "Bearer good")
	for _, id := range []uint64{0, 2} {
		if f.pass(id, good) {
			t.Errorf("it passes with the configuration %d, which there is not", id)
		}
	}
	if !f.pass(1, good) {
		t.Error("it does not pass")
	}
	f.Gone(1)
	if f.pass(1, good) {
		t.Error("it passes with a configuration that is gone")
	}
}

// Of configurations that were refused, nothing is known under any id.
func TestFrontKnowsNoRefusals(t *testing.T) {
	f := newFronted(t, hosttest.Chain)
	message, err := anypb.New(wrapperspb.String(`{"chian":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.Parser().Parse(message, noCallbacks{}); err == nil {
		t.Fatalf("%v is accepted", c)
	}
	f.Made(0)
	if _, err := f.Parser().Parse(message, nil); err != nil {
		t.Fatal(err)
	}
	f.Made(2)
	for id := range uint64(3) {
		if id != 1 && f.pass(id, shown(":path", "/")) {
			t.Errorf("it passes with the configuration %d", id)
		}
	}
}

// Nothing is made for a request that passes.
func TestFrontAllocatesNothing(t *testing.T) {
	f := newFronted(t, hosttest.Chain)
	sent := shown(":path", "/?a=b", ":method", "GET", "accept", "*/*", "authorization", "Bearer good")
	if n := testing.AllocsPerRun(1000, func() {
		if !f.pass(1, sent) {
			t.Fatal("it does not pass")
		}
	}); n != 0 {
		t.Errorf("%v objects for each", n)
	}
}
