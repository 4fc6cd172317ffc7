package module

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Streams that go while their look-up is on its way, and look-ups that come back
// to streams that have gone, free everything.
func TestCancelledRequestsLeakNothing(t *testing.T) {
	const requests, rounds = 60, 4
	w := newWorld(t, options{concurrency: 2, edit: chainAsText})
	for round := range rounds {
		before := w.counters(t)
		w.redis.signal(t, syscall.SIGSTOP)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range requests {
			r := w.request(ctx, t, http.MethodGet, "/", nil, "Authorization", fmt.Sprintf("Bearer r%d-%d", round, i))
			wg.Go(func() {
				if resp, err := w.client.Do(r); err == nil {
					closing(t, resp.Body)
				}
			})
		}
		eventually(t, "all requests are being looked up", func() bool {
			return w.counters(t).LookupsCreated-before.LookupsCreated == requests
		})
		cancel()
		wg.Wait()
		w.redis.signal(t, syscall.SIGCONT)
		eventually(t, "everything is freed", func() bool {
			c := w.counters(t)
			return c.LookupsFreed == c.LookupsCreated && c.StreamsFreed == c.StreamsCreated
		})
	}
	w.envoy.alive(t)
	eventually(t, "Redis is used again", func() bool {
		return w.get(t, "/", "Authorization", bearer).status == http.StatusOK
	})
}

// A good token whose client leaves during the look-up: the answer comes for
// nobody, and the upstream sees nothing.
func TestGoodRequestOfALeaverGoesNowhere(t *testing.T) {
	w := newWorld(t, options{edit: chainAsText})
	leaver := &storm{world: w, ctx: t.Context()}
	for range 20 {
		before := w.counters(t)
		w.redis.signal(t, syscall.SIGSTOP)
		conn, err := leaver.dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: "+bearer+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request is being looked up", func() bool { return w.counters(t).LookupsCreated == before.LookupsCreated+1 })
		closing(t, conn)
		eventually(t, "the stream has gone", func() bool {
			c := w.counters(t)
			return c.StreamsFreed == c.StreamsCreated
		})
		w.redis.signal(t, syscall.SIGCONT)
		eventually(t, "the look-up has ended", func() bool {
			c := w.counters(t)
			return c.LookupsFreed == c.LookupsCreated
		})
	}
	if n := w.stat(t, "cluster.upstream.upstream_rq_total"); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	eventually(t, "who stays is served", func() bool { return w.get(t, "/", "Authorization", bearer).status == http.StatusOK })
}

// With one worker, requests that wait for a Redis that stands still keep nobody
// else waiting, and are refused in the end.
func TestStoppedRedisBlocksNoWorker(t *testing.T) {
	w := newWorld(t, options{concurrency: 1, edit: chainAsText})
	for try := range 10 {
		if w.servesMeanwhile(t, try) {
			return
		}
		eventually(t, "Redis is used again", func() bool {
			return w.get(t, "/", "Authorization", "Bearer "+rand.Text()).status == http.StatusUnauthorized
		})
	}
	t.Error("another request was answered only after those that wait")
}

// servesMeanwhile reports whether another request is answered before all of those that wait for Redis. A
// worker that stands still would answer these first, always. A busy machine may do so, too, when it takes
// longer to send the other one than they wait.
func (w *world) servesMeanwhile(t *testing.T, try int) (meanwhile bool) {
	t.Helper()
	const waiting = 20
	before := w.counters(t)
	w.redis.signal(t, syscall.SIGSTOP)
	defer w.redis.signal(t, syscall.SIGCONT)
	refused := make(chan int, waiting)
	for i := range waiting {
		r := w.request(t.Context(), t, http.MethodGet, "/", nil, "Authorization", fmt.Sprintf("Bearer t%d-%d", try, i))
		go func() {
			resp, err := w.client.Do(r)
			if err != nil {
				refused <- 0
				return
			}
			closing(t, resp.Body)
			refused <- resp.StatusCode
		}()
	}
	eventually(t, "requests wait", func() bool { return w.counters(t).LookupsCreated-before.LookupsCreated == waiting })
	for i := range 20 {
		if a := w.get(t, "/healthz"); a.status != http.StatusOK {
			t.Errorf("other traffic: %+v", a)
		}
		if i == 0 {
			meanwhile = len(refused) == 0
		}
	}
	for range waiting {
		if status := <-refused; status != http.StatusServiceUnavailable {
			t.Errorf("status %d for a request that nobody can decide", status)
		}
	}
	return meanwhile
}

// A request that waits with a body arrives whole: in one piece, in chunks,
// below and above every buffer limit.
func TestBodyArrivesAfterLookup(t *testing.T) {
	w := newWorld(t, options{})
	for _, size := range []int{0, 1, 30_000, 1_500_000} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, chunked %v", size, chunked), func(t *testing.T) {
				text := strings.Repeat("x", size)
				var body io.Reader = strings.NewReader(text)
				if chunked {
					body = io.MultiReader(body) // hides the length
				}
				seen := w.do(t, w.request(t.Context(), t, http.MethodPost, "/", body, "Authorization", bearer)).seen(t)
				sum := sha256.Sum256([]byte(text))
				if seen.Body != int64(size) || seen.Sum != hex.EncodeToString(sum[:]) {
					t.Errorf("upstream got %d other bytes", seen.Body)
				}
				if seen.Headers.Get("X-Consumer-Id") != "consumer-1" {
					t.Errorf("upstream saw %v", seen.Headers)
				}
			})
		}
	}
}
