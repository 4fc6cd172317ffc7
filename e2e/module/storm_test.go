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
	stormTime = 40 * time.Second
	// strangers wait for their answers, leavers do not.
	strangers, leavers = 64, 16
	// stormGrowth bounds in bytes what Envoy may hold more at the end of the storm
	// than after its first quarter.
	stormGrowth = 192 << 20
)

// Strangers with random tokens beside clients that reset their connections while
// their tokens are looked up: Envoy lives, recovers no panic, does not grow, frees
// everything, and knows a good token in the end.
func TestStormOfStrangers(t *testing.T) {
	duration := stormTime
	if text := os.Getenv("MESHGATE_E2E_STORM_TIME"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, options{concurrency: 2, edit: chainAsText})
	s := newStorm(w, duration)
	defer s.end()
	early, ok := s.until(t, duration/4)
	if !ok {
		t.Fatal("the storm ended early")
	}
	late, _ := s.until(t, duration)
	s.end()
	t.Logf("%d answered, %d left early, %d of them with requests behind the first; held %d MB after a quarter, %d MB at the end; RSS %d MB",
		s.answered.Load(), s.left.Load(), s.pipelined.Load(), early>>20, late>>20, residentBytes(t, w.envoy.cmd.Process.Pid)>>20)
	w.envoy.alive(t)
	if s.answered.Load() == 0 || s.left.Load() == 0 {
		t.Error("this was no storm")
	}
	if s.passed.Load() != 0 {
		t.Errorf("%d strangers were let in", s.passed.Load())
	}
	if late > early+stormGrowth {
		t.Errorf("Envoy grew from %d to %d MB", early>>20, late>>20)
	}
	eventually(t, "a good token is good again", func() bool {
		return w.get(t, "/", "Authorization", bearer).status == http.StatusOK
	})
	w.client.CloseIdleConnections()
	eventually(t, "everything is freed", func() bool {
		c := w.counters(t)
		return c.LookupsFreed == c.LookupsCreated && c.StreamsFreed == c.StreamsCreated
	})
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
	begun time.Time

	answered, left, pipelined, passed atomic.Int64
}

func newStorm(w *world, duration time.Duration) *storm {
	s := &storm{world: w, begun: time.Now()}
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

// until waits for a moment of the storm and returns what Envoy holds then.
func (s *storm) until(t *testing.T, moment time.Duration) (held int64, ok bool) {
	t.Helper()
	select {
	case <-time.After(time.Until(s.begun.Add(moment))):
		return heldBytes(t, s.world), true
	case <-s.world.envoy.done:
		s.world.envoy.alive(t)
		return 0, false
	}
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

// heldBytes is the memory that Envoy uses, Go's part of it included: what is in
// RAM but for the pages that its allocator keeps for the next burst. Those follow
// the highest burst of a crowded machine and say nothing about leaks.
func heldBytes(t *testing.T, w *world) int64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.admin+"/memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	var allocator struct {
		Allocated int64 `json:"allocated,string"` // by C++ and C
		Free      int64 `json:"pageheap_free,string"`
	}
	if err := json.Unmarshal([]byte(w.do(t, r).body), &allocator); err != nil {
		t.Fatal(err)
	}
	held := residentBytes(t, w.envoy.cmd.Process.Pid) - allocator.Free
	t.Logf("held %d MB, of which Envoy and the front have allocated %d MB", held>>20, allocator.Allocated>>20)
	return held
}

// residentBytes is how much memory of a process is in RAM; 0 if it has ended.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
