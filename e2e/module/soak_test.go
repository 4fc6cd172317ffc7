package module

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// soakTime is how long the soak lasts; MESHGATE_E2E_SOAK_TIME says otherwise.
	soakTime = 20 * time.Second
	// feeders send bodies of which nobody reads the end.
	feeders = 16
	// leastCollections is how often the garbage collector has to run.
	leastCollections = 100
	// soakLeak bounds what Envoy and the front may keep, in bytes: its tables grow in steps.
	soakLeak = 4 << 20
)

// The garbage collector runs all the time, beside a storm of strangers, clients
// that go on sending bodies to answers which were made without them, resets in
// the middle of everything, and listeners that are replaced and freed: the module
// lives, answers right, frees everything and keeps nothing.
func TestSoak(t *testing.T) {
	duration := lasting(t, "MESHGATE_E2E_SOAK_TIME", soakTime)
	r := &reloads{t: t, file: filepath.Join(t.TempDir(), "lds.json"), names: 2}
	w := r.start(options{lib: faultDir, faultless: true, concurrency: 2, env: []string{"GOGC=10", "GODEBUG=gctrace=1"}, edit: func(config object) {
		chainAsText(config)
		addBoth(config)
		addRoute(config, object{
			"match": object{"prefix": "/garbage"}, "route": object{"cluster": "upstream"},
			"typed_per_filter_config": chained("{"),
		})
	}})
	version := soak(t, w, r, 0, duration/4)
	before := whenQuiet(t, w)
	version = soak(t, w, r, version, duration-duration/4)
	for more := 0; more < 20 && w.collections(t) < leastCollections; more++ { // the machine has much else to do
		version = soak(t, w, r, version, duration/4)
	}
	after := whenQuiet(t, w)
	collections := w.collections(t)
	t.Logf("%d listeners, %d collections; before %v, after %v", version, collections, before, after)
	if collections < leastCollections {
		t.Errorf("the garbage collector ran %d times only", collections)
	}
	if after.allocated-before.allocated > soakLeak || after.inGo-before.inGo > growthGo {
		t.Errorf("memory grew from %v to %v", before, after)
	}
	eventually(t, "old configurations are freed", func() bool {
		c := w.counters(t)
		return c.ConfigsCreated-c.ConfigsFreed == 1
	})
	w.get(t, "/", "Authorization", bearer).seen(t)
	w.envoy.alive(t)
}

// soak lets everything happen for a time, from a version of the listener on, and
// returns the last one.
func soak(t *testing.T, w *world, r *reloads, version int, duration time.Duration) int {
	t.Helper()
	s := newStorm(w, duration)
	defer s.end()
	for i := range feeders {
		random := rand.New(rand.NewPCG(uint64(i), 2)) // repeatable
		s.wg.Go(func() {
			for s.ctx.Err() == nil {
				s.feed(random)
			}
		})
	}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		version++
		r.update(w, version)
		w.envoy.alive(t)
	}
	s.end()
	if s.answered.Load() == 0 || s.left.Load() == 0 || s.fed.Load() == 0 {
		t.Fatal("this was no storm")
	}
	if s.passed.Load() != 0 {
		t.Fatalf("%d strangers were let in", s.passed.Load())
	}
	t.Logf("in %v: %d strangers answered, %d that left, %d bodies refused", duration, s.answered.Load(), s.left.Load(), s.fed.Load())
	return version
}

// feed sends a body in pieces whatever the answer is, which has a body of its own
// and comes before the end; then the connection is reset or closed.
func (s *storm) feed(random *rand.Rand) {
	conn, err := s.dial()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // it may be closed already
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	path := []string{"/garbage", "/both", "/x"}[random.IntN(3)]
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer z%d\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n", path, random.Uint64())
	if _, err := io.WriteString(conn, head); err != nil {
		return
	}
	answered := make(chan bool, 1)
	go func() { answered <- s.refusal(conn) }()
	piece := fmt.Sprintf("%x\r\n%s\r\n", 8000, strings.Repeat("x", 8000))
	for range 1 + random.IntN(32) {
		if _, err := io.WriteString(conn, piece); err != nil {
			break // the gateway was first
		}
	}
	if random.IntN(2) == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset
		_ = conn.Close()
	}
	if <-answered {
		s.fed.Add(1)
	}
}

// refusal reads an answer, and reports whether it has a body and refuses.
func (s *storm) refusal(conn net.Conn) bool {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // of a connection that ends
	if resp.StatusCode < 400 {
		s.passed.Add(1)
	}
	text, err := io.ReadAll(resp.Body)
	return err == nil && len(text) > 0
}

// collections is how often the garbage collector of the module has run, by its own
// trace.
func (w *world) collections(t *testing.T) int {
	t.Helper()
	all := regexp.MustCompile(`(?m)^gc (\d+) @`).FindAllStringSubmatch(w.envoy.output(), -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
