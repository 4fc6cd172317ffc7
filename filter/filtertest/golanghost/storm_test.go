package golanghost

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// stormTime is how long a storm lasts; MESHGATE_E2E_STORM_TIME says otherwise.
	stormTime = 2 * time.Second
	// stormKeeps bounds in bytes what C and Go may keep of a storm.
	stormKeeps = 1 << 20
)

// stormed is what a storm was; memory is what it has left.
type (
	stormed struct{ begun, passed, replied, cancelled, changed, swapped, atOnce int }
	memory  struct{ made, finalised, inC, inGo, goroutines, caches, atOnce int }
)

// Many requests of all kinds are in flight on several workers. Random ones take a step or are
// given up, tokens are revoked and configurations replaced under them. The host judges what
// comes of each, and nothing is kept. AddressSanitizer watches C, and with GOEXPERIMENT=cgocheck2
// Go watches what it hands to C.
func TestStorm(t *testing.T) { both(t, testStorm) }

func testStorm(t *testing.T, way way) {
	e := startEnvoy(t, stormy, way)
	seed := time.Now().UnixNano() % 1e6
	duration := lasting(t)
	e.storm(max(duration/4, time.Second), seed) // makes everything as large as it gets
	before := e.calm(e.memory())
	s := e.storm(duration, seed+1000)
	after := e.calm(before)
	t.Logf("seed %d: %+v, before %+v, after %+v", seed, s, before, after)
	if s.passed == 0 || s.replied == 0 || s.cancelled == 0 || s.changed == 0 || s.swapped == 0 {
		t.Error("this was no storm")
	}
	if (s.atOnce > 0) != (way == fast) {
		t.Errorf("the front has let %d requests pass", s.atOnce)
	}
	if after.made != after.finalised || after.caches != 0 || after.goroutines > before.goroutines {
		t.Error("something is not freed")
	}
	if after.inC-before.inC > stormKeeps || after.inGo-before.inGo > stormKeeps {
		t.Error("memory is not flat")
	}
	if strings.Contains(e.said(), "panic") {
		t.Error("something panicked")
	}
}

// calm is what is in use once everything that a storm leaves has ended, or does not end.
func (e *envoy) calm(before memory) (after memory) {
	e.t.Helper()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		if after = e.memory(); after.made == after.finalised && after.caches == 0 && after.goroutines <= before.goroutines {
			break
		}
	}
	return after
}

func lasting(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MESHGATE_E2E_STORM_TIME")
	if text == "" {
		return stormTime
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// storm lets a storm rage.
func (e *envoy) storm(duration time.Duration, seed int64) stormed {
	e.t.Helper()
	n := e.numbers(e.say("storm %d %d %s %s %s %s %s", int(duration.Seconds()), seed,
		e.bytes("{}"), e.bytes(`{"chain":`+chain+`}`), e.bytes(`{"chain":`+speaking+`}`), e.bytes("{}"), e.bytes(`{"chian":{}}`)), 7)
	return stormed{n[0], n[1], n[2], n[3], n[4], n[5], n[6]}
}

// Nothing is made for a request that the front lets pass. A few objects are the runtime's own.
func TestPassingAllocatesNothing(t *testing.T) {
	const requests, few = 20000, 100
	e := startEnvoy(t, stormy, fast)
	at := e.merge(e.config(false, "{}"), e.config(true, `{"chain":`+chain+`}`))
	n := e.numbers(e.say("bench %d %d", requests, at), 3)
	if n[1] > few || n[2] != requests {
		t.Errorf("%d objects for %d requests, of which the front let %d pass", n[1], requests, n[2])
	}
}

// BenchmarkPassing is a request whose token is known, from its headers to its end, with the host's
// own part in it.
func BenchmarkPassing(b *testing.B) {
	for _, way := range []way{plain, fast} {
		b.Run(way.String(), func(b *testing.B) {
			e := startEnvoy(b, stormy, way)
			at := e.merge(e.config(false, "{}"), e.config(true, `{"chain":`+chain+`}`))
			n := e.numbers(e.say("bench %d %d", b.N, at), 3)
			b.ReportMetric(float64(n[0]), "ns/op")
			b.ReportMetric(float64(n[1])/float64(b.N), "allocs/op")
		})
	}
}

// memory has the library finalise what it does not use any more, and says what is in use then.
func (e *envoy) memory() memory {
	e.t.Helper()
	n := e.numbers(e.say("memory"), 7)
	return memory{n[0], n[1], n[2], n[3], n[4], n[5], n[6]}
}

// numbers are those of an answer, behind its first word.
func (e *envoy) numbers(words []string, count int) []int {
	e.t.Helper()
	if len(words) != count+1 {
		e.t.Fatalf("answer %q", words)
	}
	all := make([]int, count)
	for i := range all {
		all[i] = e.number(words[i+1])
	}
	return all
}

// bytes is the message of a configuration, for the host.
func (e *envoy) bytes(text string) string {
	e.t.Helper()
	message, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		e.t.Fatal(err)
	}
	data, err := proto.Marshal(message)
	if err != nil {
		e.t.Fatal(err)
	}
	return dashed(string(data))
}
