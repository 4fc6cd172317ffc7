package delivery

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// stores are those that the benchmarks run on.
var stores = map[string]func(b *testing.B, now func() time.Time) store.Store{
	"memory": func(_ *testing.B, now func() time.Time) store.Store { return memstore.Open(memstore.Options{Now: now}) },
	"sqlite": func(b *testing.B, now func() time.Time) store.Store {
		return sqlite(b, filepath.Join(b.TempDir(), "meshgate.db"), now)
	},
}

// lags are how late events arrive that have the time at which they were made as their trace.
type lags struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l *lags) serve(_ http.ResponseWriter, r *http.Request) {
	now := time.Now().UnixNano()
	var got []time.Duration
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		_, rest, _ := strings.Cut(lines.Text(), `"trace_id":"`)
		text, _, _ := strings.Cut(rest, `"`)
		if made, err := strconv.ParseInt(text, 10, 64); err == nil {
			got = append(got, time.Duration(now-made))
		}
	}
	l.mu.Lock()
	l.list = append(l.list, got...)
	l.mu.Unlock()
}

func (l *lags) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// BenchmarkFiftyWebhooks: 10,000 events in a second, or as many as the store takes, for 50 webhooks, three
// of whose receivers refuse everything and two say nothing. An operation is an event. So many logins are
// under way at a time: each waits until its event is stored. It tells the lag of the others, the processor
// time of the process for an event, and the memory at the end.
func BenchmarkFiftyWebhooks(b *testing.B) {
	const hooks, bad, rate, writers = 50, 5, 10000, 256
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := blankWorld(b)
			w.natural = true
			w.open(open(b, time.Now))
			good := &lags{}
			receiver := httptest.NewServer(http.HandlerFunc(good.serve))
			defer receiver.Close()
			ends := make(chan struct{})
			silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ends }))
			defer silent.Close()
			defer close(ends)
			down := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }))
			defer down.Close()
			for i := range hooks {
				to := receiver.URL
				switch {
				case i < 3:
					to = down.URL
				case i < bad:
					to = silent.URL
				}
				w.lead(fmt.Sprintf("portal-%d", i), to)
			}
			stop := w.start()
			defer stop()
			b.ReportAllocs()
			b.ResetTimer()
			began, used := time.Now(), processor(b)
			var all sync.WaitGroup
			for worker := range writers {
				all.Go(func() {
					for n := worker; n < b.N; n += writers {
						time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
						w.event(fmt.Sprintf("portal-%d", n%hooks))
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
			want := 0
			for n := range b.N {
				if n%hooks >= bad {
					want++
				}
			}
			until(b, "all events", func() bool { return good.count() == want })
			b.StopTimer()
			b.ReportMetric(float64((processor(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
			if want > 0 {
				slices.Sort(good.list)
				b.ReportMetric(float64(good.list[want*99/100].Milliseconds()), "p99-ms")
				b.ReportMetric(float64(good.list[want/2].Milliseconds()), "p50-ms")
			}
			reportMemory(b)
		})
	}
}

// processor is the processor time of the process so far.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportMemory(b *testing.B) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
}

// lead leads the log of a portal to a URL.
func (w *world) lead(portal, url string) {
	w.write(func(tx store.Tx) error {
		id := "to-" + url
		if err := put(tx, cloud.Destinations, id, &cloud.Destination{Name: id, Endpoint: url, Authorization: "Basic c2VjcmV0", LogFormat: cloud.FormatJSON}); err != nil {
			return err
		}
		return put(tx, cloud.Webhooks, portal, &cloud.Webhook{Enabled: true, Destination: id})
	})
}

// event makes an event as a login does.
func (w *world) event(portal string) {
	_, err := w.gate.Write(context.Background(), model.Credential, func(tx store.Tx) error {
		return Put(tx, audit.Event{Portal: portal, Outcome: audit.Success, Method: audit.Basic, Request: "/api/v2/developer/authenticate",
			UserAgent: strings.Repeat("Mozilla/5.0 ", 8), Trace: strconv.FormatInt(time.Now().UnixNano(), 10)})
	})
	if err != nil {
		w.t.Error(err)
	}
}

// BenchmarkOutage: so many events wait for a receiver that is down for an hour of virtual time, and are
// delivered then. It tells how large the heap of the engine was while it waited, above that of the store,
// and how fast they were delivered.
func BenchmarkOutage(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := blankWorld(b)
			w.open(open(b, w.time))
			arrived := &lags{}
			down := true
			var mu sync.Mutex
			r := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if down {
					rw.WriteHeader(503)
					return
				}
				arrived.serve(rw, req)
			}))
			defer r.Close()
			w.lead("p", r.URL)
			for n := 0; n < b.N; n += 1000 {
				w.write(func(tx store.Tx) error {
					for range min(1000, b.N-n) {
						if err := Put(tx, audit.Event{Portal: "p", Request: "/api/v2/developer/authenticate", UserAgent: strings.Repeat("Mozilla/5.0 ", 8), Trace: strconv.FormatInt(time.Now().UnixNano(), 10)}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			runtime.GC()
			var before, during runtime.MemStats
			runtime.ReadMemStats(&before)
			stop := w.start()
			defer stop()
			for passed := time.Duration(0); passed < time.Hour; {
				<-w.held
				waits := w.waited()
				passed += waits[len(waits)-1]
				if passed >= time.Hour {
					break
				}
				w.resume()
			}
			runtime.GC()
			runtime.ReadMemStats(&during)
			mu.Lock()
			down = false
			mu.Unlock()
			b.ReportAllocs()
			b.ResetTimer()
			began := time.Now()
			w.resume()
			for deadline := time.Now().Add(5 * time.Minute); arrived.count() < b.N && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
			b.StopTimer()
			b.ReportMetric((float64(during.HeapInuse)-float64(before.HeapInuse))/(1<<20), "engine-MiB")
			if n := arrived.count(); n != b.N {
				b.Errorf("%d of %d arrived", n, b.N)
			}
			reportMemory(b)
		})
	}
}
