package golang

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// A panic while a configuration of a route is read refuses its requests, because Envoy ends
// on an error there. One of a listener is an error.
func TestPanicsOfTheParserRefuse(t *testing.T) {
	log := &hosttest.Log{}
	p := &parser{host: host.New(host.NewLogger(log), nil), parse: func(*anypb.Any, bool) (*config, error) { panic("injected into parse") }}
	c, err := p.Parse(&anypb.Any{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnvoy("good")
	NewFactory(p.host)(c, e).DecodeHeaders(e, true)
	if got := <-e.answers; got != 503 || !strings.Contains(log.Text(), "injected into parse") {
		t.Errorf("answer %d, log %s", got, log.Text())
	}
	if c, err := p.Parse(&anypb.Any{}, noCallbacks{}); err == nil {
		t.Errorf("the configuration of a listener is %v", c)
	}
}

// A route that cannot be read is one that refuses, and never an error.
func TestUnreadableRoutes(t *testing.T) {
	h := host.New(host.NewLogger(&hosttest.Log{}), nil)
	for _, text := range []string{`{"chian":{}}`, `{"listener":{}}`, `{`} {
		message, err := anypb.New(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewParser(h).Parse(message, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		e := newEnvoy("good")
		NewFactory(h)(c, e).DecodeHeaders(e, true)
		if got := <-e.answers; got != 503 {
			t.Errorf("%s: answer %d", text, got)
		}
	}
}

// A listener that leaves its headers to the dynamic module is refused: nobody would clean
// them.
func TestForwardingIsForTheModule(t *testing.T) {
	h := host.New(host.NewLogger(&hosttest.Log{}), nil)
	for text, want := range map[string]error{`{"listener":{"forwarding":"peer"}}`: errForwarding, `{"listener":{"forwarding":""}}`: nil} {
		message, err := anypb.New(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewParser(h).Parse(message, noCallbacks{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}
