package module

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// bothChain wants a token, and a key that may be in the body.
const bothChain = `{"route":"both","service":"` + serviceID + `","plugins":[{"id":"o","oauth2":{"header":"authorization","in_body":true}},` +
	`{"id":"k","key_auth":{"names":["apikey"],"in_body":true,"hide_credentials":true}}]}`

func addBoth(config object) {
	addRoute(config, object{
		"match": object{"prefix": "/both"}, "route": object{"cluster": "upstream"},
		"typed_per_filter_config": chained(bothChain),
	})
}

// Clients that go in the middle of a body which a decision waits for, before and
// after its first look-up, leave nothing behind.
func TestAbandonedBodiesLeakNothing(t *testing.T) {
	const requests = 40
	w := newWorld(t, options{concurrency: 2, edit: addBoth})
	before := w.counters(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range requests {
		body, feed := io.Pipe()
		header := []string{"Content-Type", "application/x-www-form-urlencoded"}
		if i%2 == 0 {
			header = append(header, "Authorization", bearer)
		}
		r := w.request(ctx, t, http.MethodPost, "/both", body, header...)
		wg.Go(func() {
			if resp, err := w.client.Do(r); err == nil {
				closing(t, resp.Body)
			}
		})
		wg.Go(func() {
			_, err := fmt.Fprint(feed, "apikey=x&padding=")
			<-ctx.Done()
			_ = feed.CloseWithError(err) // the client has gone
		})
	}
	eventually(t, "bodies are being collected", func() bool {
		c := w.counters(t)
		return c.StreamsCreated-before.StreamsCreated == requests && c.LookupsFreed == c.LookupsCreated-requests/2
	})
	cancel()
	wg.Wait()
	eventually(t, "everything is freed", func() bool {
		c := w.counters(t)
		return c.LookupsFreed == c.LookupsCreated && c.StreamsFreed == c.StreamsCreated
	})
	w.envoy.alive(t)
	w.get(t, "/", "Authorization", bearer).seen(t)
}

// A body that arrives, whole or in part, while the token is looked up is there
// for the key, and what is left of it goes on.
func TestBodyIsHeldDuringLookup(t *testing.T) {
	w := newWorld(t, options{edit: addBoth})
	key := record()
	key.Key, key.Service, key.Consumer.ID = true, "", "consumer-2"
	w.put(t, "key-1", key)
	for _, size := range []int{10, 60_000, 1_000_000} {
		padding := "padding=" + strings.Repeat("x", size)
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, whole %v", size, whole), func(t *testing.T) {
				before := w.counters(t)
				w.redis.signal(t, syscall.SIGSTOP)
				body, feed := io.Pipe()
				r := w.request(t.Context(), t, http.MethodPost, "/both", body,
					"Content-Type", "application/x-www-form-urlencoded", "Authorization", bearer)
				answered := make(chan *http.Response, 1)
				go func() {
					resp, err := w.client.Do(r)
					if err != nil {
						_ = body.CloseWithError(err) // whoever writes sees it
					}
					answered <- resp
				}()
				send(t, feed, padding)
				if whole {
					send(t, feed, "&apikey=key-1")
					closing(t, feed)
				}
				eventually(t, "the look-up has begun", func() bool { return w.counters(t).LookupsCreated > before.LookupsCreated })
				w.redis.signal(t, syscall.SIGCONT)
				if !whole {
					send(t, feed, "&apikey=key-1")
					closing(t, feed)
				}
				seen := readAnswer(t, <-answered).seen(t)
				if seen.Text != padding || seen.Headers.Get("X-Consumer-Id") != "consumer-2" {
					t.Errorf("upstream saw %d bytes, %v", len(seen.Text), seen.Headers)
				}
			})
		}
	}
}

func send(t *testing.T, to io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}
