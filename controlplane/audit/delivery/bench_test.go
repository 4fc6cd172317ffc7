package delivery

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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

// stores are those that the benchmarks run on, with the directory of their files.
var stores = map[string]func(b *testing.B, now func() time.Time) (s store.Store, dir string){
	"memory": func(_ *testing.B, now func() time.Time) (store.Store, string) {
		return memstore.Open(memstore.Options{Now: now}), ""
	},
	"sqlite": func(b *testing.B, now func() time.Time) (store.Store, string) {
		dir := b.TempDir()
		return sqlite(b, filepath.Join(dir, "meshgate.db"), now), dir
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
			s, _ := open(b, time.Now)
			w.open(s)
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
			b.ReportMetric(heap(), "heap-MiB")
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

// ordered takes events whose traces are their numbers. Until it is up it answers 503.
type ordered struct {
	mu      sync.Mutex
	up      bool
	next    int
	strange int // those out of order, or more than once
}

func (o *ordered) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.up {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		_, rest, _ := strings.Cut(lines.Text(), `"trace_id":"`)
		text, _, _ := strings.Cut(rest, `"`)
		if n, err := strconv.Atoi(text); err != nil || n != o.next {
			o.strange++
		}
		o.next++
	}
}

func (o *ordered) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up = true
}

func (o *ordered) arrived() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next
}

// fill stores so many events of a portal, a thousand in a transaction.
func (w *world) fill(portal string, n int) {
	const step = 1000
	for done := 0; done < n; done += step {
		w.write(func(tx store.Tx) error {
			for i := done; i < min(done+step, n); i++ {
				if err := Put(tx, audit.Event{Portal: portal, Outcome: audit.Success, Method: audit.Basic, Request: "/api/v2/developer/authenticate",
					UserAgent: strings.Repeat("Mozilla/5.0 ", 8), Trace: strconv.Itoa(i)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// BenchmarkOutage: so many events wait for a receiver that is down for an hour of virtual time, and are
// delivered then, in order. It tells the heap above that of the store while they waited and at most while
// they were delivered, the bytes in files for each, and how fast they were delivered. A million of them:
// -benchtime 1000000x -timeout 1h.
func BenchmarkOutage(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			w := blankWorld(b)
			s, dir := open(b, w.time)
			w.open(s)
			to := &ordered{}
			r := httptest.NewServer(to)
			defer r.Close()
			w.lead("p", r.URL)
			w.fill("p", b.N)
			before := heap()
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
			waiting := heap()
			to.open()
			b.ReportAllocs()
			b.ResetTimer()
			began, used := time.Now(), processor(b)
			w.resume()
			most := waiting
			for ticks := 0; to.arrived() < b.N; ticks++ {
				time.Sleep(10 * time.Millisecond)
				if ticks%500 == 0 {
					most = max(most, heap())
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
			b.ReportMetric(float64((processor(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(waiting-before, "waiting-MiB")
			b.ReportMetric(most-before, "delivering-MiB")
			if dir != "" {
				b.ReportMetric(float64(size(b, dir))/float64(b.N), "file-B/op")
			}
			if to.next != b.N || to.strange > 0 {
				b.Errorf("%d of %d arrived, %d of them out of order or twice", to.next, b.N, to.strange)
			}
		})
	}
}

// heap is what is in use of the heap after a collection, in MiB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// size is how many bytes the files of a directory have.
func size(b *testing.B, dir string) (n int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
