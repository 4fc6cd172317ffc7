package module

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// stormTime is how long the storm lasts; MESHGATE_E2E_STORM_TIME says
	// otherwise.
	stormTime = 20 * time.Second
	// strangers wait for their answers, leavers do not.
	strangers, leavers = 64, 16
	// leaverLeak bounds in bytes what each client that leaves may leave behind in
	// Envoy and the front, or in Go, once everything is quiet.
	leaverLeak = 100
	// growthGo is what Go may have more in use after a storm than after one as long:
	// the tables of tokens get as full as the machine is fast.
	growthGo = 1 << 20
)

// Strangers with random tokens beside clients that reset their connections while
// their tokens are looked up: Envoy lives, recovers no panic, frees everything,
// keeps nothing of those who left, and knows a good token in the end.
func TestStormOfStrangers(t *testing.T) {
	duration := lasting(t, "MESHGATE_E2E_STORM_TIME", stormTime)
	w := newWorld(t, options{lib: faultDir, faultless: true, concurrency: 2, edit: chainAsText})
	// The first storm makes Envoy and the bounded tables of tokens as large as a storm of
	// this length makes them.
	runStorm(t, w, duration/2)
	before := whenQuiet(t, w)
	s := runStorm(t, w, duration/2)
	after := whenQuiet(t, w)
	left := s.left.Load()
	t.Logf("%d answered, %d left early, %d of them with requests behind the first; before %v, after %v, %d and %d bytes for each that left",
		s.answered.Load(), left, s.pipelined.Load(), before, after,
		(after.allocated-before.allocated)/left, (after.inGo-before.inGo)/left)
	if after.allocated-before.allocated > left*leaverLeak {
		t.Errorf("Envoy and the front keep %d bytes of %d clients that left", after.allocated-before.allocated, left)
	}
	if after.inGo-before.inGo > growthGo+left*leaverLeak {
		t.Errorf("Go has %d bytes more in use after %d clients that left", after.inGo-before.inGo, left)
	}
	eventually(t, "a good token is good again", func() bool {
		return w.get(t, "/", "Authorization", bearer).status == http.StatusOK
	})
}

// lasting is how long a test goes on: as long as a variable says, or as usual.
func lasting(t *testing.T, variable string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return d
}

// chainAsText gives the protected route its chain as a string: Envoy 1.38 passes
// on no other type as JSON.
func chainAsText(config object) {
	chain, err := json.Marshal(exampleChain(config))
	if err != nil {
		panic(err) // it came from JSON
	}
	routes := virtualHost(config)["routes"].([]any)
	routes[len(routes)-1].(object)["typed_per_filter_config"] = chained(string(chain))
}

// storm is the clients of a storm, which it waits for.
type storm struct {
	world *world
	ctx   context.Context //nolint:containedctx // of the clients, which live as long as the storm
	stop  context.CancelFunc
	wg    sync.WaitGroup

	answered, left, pipelined, passed, fed atomic.Int64
}

func newStorm(w *world, duration time.Duration) *storm {
	s := &storm{world: w}
	s.ctx, s.stop = context.WithTimeout(context.Background(), duration+patience)
	for i := range strangers + leavers {
		random := rand.New(rand.NewPCG(uint64(i), 1)) // repeatable
		client := s.wait
		if i >= strangers {
			client = s.leave
		}
		s.wg.Go(func() {
			for s.ctx.Err() == nil {
				client(random)
			}
		})
	}
	return s
}

// end ends the clients and waits for them.
func (s *storm) end() {
	s.stop()
	s.wg.Wait()
}

// runStorm lets a storm last for a time, which Envoy must survive.
func runStorm(t *testing.T, w *world, duration time.Duration) *storm {
	t.Helper()
	s := newStorm(w, duration)
	defer s.end()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.envoy.done:
		w.envoy.alive(t)
		t.Fatal("the storm ended early")
	}
	// Of fewer, one leak of theirs would not be seen.
	eventually(t, "a storm", func() bool { return s.answered.Load() > 0 && s.left.Load() >= growthGo/leaverLeak/2 })
	s.end()
	w.envoy.alive(t)
	if s.passed.Load() != 0 {
		t.Fatalf("%d strangers were let in", s.passed.Load())
	}
	return s
}

func (s *storm) dial() (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(s.ctx, "tcp", strings.TrimPrefix(s.world.base, "http://"))
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// strange is a request with a random token. Some have a body, of which the answer
// may find only a part there.
func strange(random *rand.Rand) string {
	const size = 40_000
	head := fmt.Sprintf(" /storm HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer z%d\r\n", random.Uint64())
	if random.IntN(8) != 0 {
		return "GET" + head + "\r\n"
	}
	return fmt.Sprintf("POST%sContent-Length: %d\r\n\r\n%s", head, size, strings.Repeat("x", size))
}

// wait is a stranger who reads some answers on one connection.
func (s *storm) wait(random *rand.Rand) {
	conn, err := s.dial()
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	r := bufio.NewReader(conn)
	for range 100 {
		if _, err := io.WriteString(conn, strange(random)); err != nil {
			return
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		if _, err = io.Copy(io.Discard, resp.Body); err != nil {
			return
		}
		if err := resp.Body.Close(); err != nil {
			return
		}
		s.answered.Add(1)
		if resp.StatusCode == http.StatusOK {
			s.passed.Add(1)
		}
	}
}

// leave is a stranger who resets the connection within two milliseconds.
func (s *storm) leave(random *rand.Rand) {
	conn, err := s.dial()
	if err != nil {
		return
	}
	text := strange(random)
	if random.IntN(3) == 0 {
		text += strange(random) + strange(random)
		s.pipelined.Add(1)
	}
	// Sometimes in the middle of a body.
	if _, err = io.WriteString(conn, text[:min(len(text), 200+random.IntN(60_000))]); err == nil && random.IntN(10) < 7 {
		timer := time.NewTimer(time.Duration(random.IntN(2000)) * time.Microsecond)
		<-timer.C
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // a reset
	_ = conn.Close()
	s.left.Add(1)
}

// memory is what Envoy's process has in use, in bytes, without what its allocators keep
// for the next burst.
type memory struct {
	allocated int64 // by Envoy and the front
	inGo      int64 // Go's heap and stacks
}

func (m memory) String() string {
	return fmt.Sprintf("%d KB allocated, %d KB in Go", m.allocated>>10, m.inGo>>10)
}

// whenQuiet waits until there is no client, stream, look-up or deadline any more
// and returns what Envoy holds then.
func whenQuiet(t *testing.T, w *world) memory {
	t.Helper()
	w.client.CloseIdleConnections()
	eventually(t, "everything is freed", func() bool {
		c := w.counters(t)
		return c.LookupsFreed == c.LookupsCreated && c.StreamsFreed == c.StreamsCreated && c.DeadlinesFreed == c.DeadlinesCreated &&
			w.gauge(t, "listener.127.0.0.1_"+strings.TrimPrefix(w.base, "http://127.0.0.1:")+".downstream_cx_active") == 0
	})
	var allocator struct {
		Allocated int64 `json:"allocated,string"`
	}
	if err := json.Unmarshal([]byte(w.ask(t, "/memory")), &allocator); err != nil {
		t.Fatal(err)
	}
	return memory{allocator.Allocated, w.inGo(t)}
}

// inUse is what a library that can be told to fail prints when it is asked for its memory.
var inUse = regexp.MustCompile(`(?m)^injected: (\d+) bytes in use$`)

// inGo has the library collect its garbage and say what is left.
func (w *world) inGo(t *testing.T) (bytes int64) {
	t.Helper()
	said := len(inUse.FindAllString(w.envoy.output(), -1))
	w.get(t, "/fault/memory", "Authorization", bearer)
	eventually(t, "the library says what it has in use", func() bool {
		all := inUse.FindAllStringSubmatch(w.envoy.output(), -1)
		if len(all) == said {
			return false
		}
		n, err := strconv.ParseInt(all[len(all)-1][1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes = n
		return true
	})
	return bytes
}

// gauge reads one of Envoy's numbers.
func (w *world) gauge(t *testing.T, name string) int64 {
	t.Helper()
	_, text, found := strings.Cut(strings.TrimSpace(w.ask(t, "/stats?filter=^"+name+"$")), ": ")
	n, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		t.Fatalf("no number %s: %v", name, err)
	}
	return n
}

// ask reads a page of Envoy's administration.
func (w *world) ask(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.do(t, r).body
}
