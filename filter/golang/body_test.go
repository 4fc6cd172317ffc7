package golang

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/host"
)

// piece is a piece of a body that Envoy shows. Methods that the filter has no use for panic.
type piece struct {
	api.BufferInstance
	data []byte
}

func (p *piece) Len() int      { return len(p.data) }
func (p *piece) Bytes() []byte { return p.data }
func (p *piece) Append(data []byte) error {
	p.data = append(p.data, data...)
	return nil
}

// wait begins a request whose body is waited for.
func (f *fixture) wait(e *envoy) api.StreamFilter {
	f.t.Helper()
	delete(e.sent, "authorization")
	e.sent[":method"] = []string{"POST"}
	e.sent["content-type"] = []string{"application/x-www-form-urlencoded"}
	s := NewFactory(f.host)(f.config, e)
	if status := s.DecodeHeaders(e, false); status != api.StopAndBufferWatermark {
		f.t.Fatalf("status %d: the body is not waited for", status)
	}
	return s
}

// A body is kept in one buffer, so that single bytes take no more room than others.
func TestPiecesAreKeptInOneBuffer(t *testing.T) {
	f := newFixtureOf(t, inBody)
	e := newEnvoy("")
	s := f.wait(e)
	first := &piece{data: []byte("a")}
	if status := s.DecodeData(first, false); status != api.StopAndBufferWatermark {
		t.Errorf("status of the first piece: %d", status)
	}
	for range 3 {
		if status := s.DecodeData(&piece{data: []byte("b")}, false); status != api.StopNoBuffer {
			t.Errorf("status of another piece: %d", status)
		}
	}
	if string(first.data) != "abbb" {
		t.Errorf("Envoy keeps %q", first.data)
	}
	s.OnDestroy(api.Normal)
	f.end()
}

// A body that is over the budget is refused before Envoy keeps it. However a stream ends, it
// makes room.
func TestBudgetIsGivenBack(t *testing.T) {
	f := newFixtureOf(t, inBody)
	const some = 1 << 20
	text := func(size int) *piece { return &piece{data: []byte(strings.Repeat("a", size))} }
	ends := map[string]func(s api.StreamFilter, e *envoy){
		"destroyed": func(api.StreamFilter, *envoy) {},
		"refused":   func(s api.StreamFilter, _ *envoy) { s.DecodeData(text(1), true) },
		"too large": func(s api.StreamFilter, _ *envoy) { s.DecodeData(text(1), false) },
		"trailers":  func(s api.StreamFilter, e *envoy) { s.DecodeTrailers(noTrailers{}); <-e.answers },
	}
	for name, end := range ends {
		var open []api.StreamFilter
		last := newEnvoy("")
		for range host.BodyBudgetConnection / some {
			last = newEnvoy("")
			s := f.wait(last)
			if status := s.DecodeData(text(some), false); status != api.StopAndBufferWatermark {
				t.Fatalf("%s: status %d within the budget", name, status)
			}
			open = append(open, s)
		}
		e := newEnvoy("")
		over := f.wait(e)
		if status := over.DecodeData(text(1), false); status != api.LocalReply || <-e.answers != 503 {
			t.Errorf("%s: status %d over the budget", name, status)
		}
		over.OnDestroy(api.Normal)
		s := open[len(open)-1]
		end(s, last)
		f.host.Wait()
		if name == "destroyed" {
			s.OnDestroy(api.Normal)
		}
		again := f.wait(newEnvoy(""))
		if status := again.DecodeData(text(some), false); status != api.StopAndBufferWatermark {
			t.Errorf("%s: the stream has made no room: status %d", name, status)
		}
		for _, s := range append(open, again) {
			s.OnDestroy(api.Normal)
		}
	}
	f.end()
}

// noTrailers are trailers without any.
type noTrailers struct{ api.RequestTrailerMap }

func (noTrailers) Range(func(string, string) bool) {}

// A body of which a piece comes too late is refused.
func TestBodiesHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, inBody)
		e := newEnvoy("")
		s := f.wait(e)
		time.Sleep(host.BodyDeadline - time.Nanosecond)
		if status := s.DecodeData(&piece{data: []byte("a")}, false); status != api.StopAndBufferWatermark {
			t.Errorf("status %d in time", status)
		}
		time.Sleep(time.Nanosecond)
		if status := s.DecodeData(&piece{data: []byte("a")}, false); status != api.LocalReply || <-e.answers != 408 {
			t.Errorf("status %d too late", status)
		}
		s.OnDestroy(api.Normal)
		f.end()
	})
}
