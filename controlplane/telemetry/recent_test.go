package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestManyScrapesAreOne: a client in a loop causes one question to Envoy per second, even if
// Envoy does not answer.
func TestManyScrapesAreOne(t *testing.T) {
	for name, fails := range map[string]error{"it answers": nil, "it does not": errors.New("refused")} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			s := NewScrape(own(), func(context.Context) (io.ReadCloser, error) {
				asked++
				time.Sleep(3 * time.Second) // virtual time; longer than a page is served again
				return io.NopCloser(strings.NewReader("")), fails
			}, slog.New(slog.DiscardHandler))
			var clients sync.WaitGroup
			for range 10 {
				clients.Go(func() {
					for range 100 {
						scraped(t, s)
					}
				})
			}
			clients.Wait()
			if asked != 1 {
				t.Errorf("%s: for 1000 scrapes envoy was asked %d times", name, asked)
			}
			time.Sleep(pageAge)
			if scraped(t, s); asked != 2 {
				t.Errorf("%s: a second later envoy was asked %d times", name, asked)
			}
		})
	}
}

// TestGathered: the metrics of a control plane are gathered once a second.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gathers := 0
		r := prometheus.NewRegistry()
		r.MustRegister(Gauge("counted", "help", func() float64 { gathers++; return 0 }))
		g := Gathered(r)
		for i := range 30 {
			families, err := g.Gather()
			if err != nil || gathers != 1+i/10 || len(families) != 2 {
				t.Fatalf("after %d scrapes: gathered %d times, %v", i, gathers, err)
			}
			if age := Unix(time.Now()) - value(families[1]); age < 0 || age > 0.901 {
				t.Errorf("what was gathered is %v s old", age)
			}
			time.Sleep(pageAge / 10)
		}
	})
}

// TestWhoLeavesWaitsNoLonger: a client that leaves stops waiting, and the others still get
// the page.
func TestWhoLeavesWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScrape(own(), func(ctx context.Context) (io.ReadCloser, error) {
			time.Sleep(3 * time.Second) // virtual time
			return io.NopCloser(strings.NewReader("# TYPE envoy_a counter\nenvoy_a 1\n")), ctx.Err()
		}, slog.New(slog.DiscardHandler))
		first, leave := context.WithCancel(t.Context())
		go func() {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(first, "GET", "/metrics", nil))
		}()
		synctest.Wait()
		leave()
		gone := make(chan struct{})
		second, leaveToo := context.WithCancel(t.Context())
		go func() {
			defer close(gone)
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(second, "GET", "/metrics", nil))
		}()
		synctest.Wait()
		begun := time.Now()
		leaveToo()
		if <-gone; time.Since(begun) != 0 {
			t.Errorf("it waited for %s", time.Since(begun))
		}
		if got := scraped(t, s); value(got["envoy_a"]) != 1 {
			t.Errorf("%v", got)
		}
	})
}
