package framework

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Load is steady traffic of which every request should be answered with 200.
type Load struct {
	once sync.Once
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	results map[string]int
	total   int
	each    []int // requests of each worker that have been answered
}

// StartLoad sends requests with a token to the fixture's route until Stop.
func StartLoad(_ *Fixture, httpPort int, token string, workers int) *Load {
	return StartTraffic(fmt.Sprintf("http://127.0.0.1:%d%s/load", httpPort, RoutePath), http.Header{"Authorization": {"Bearer " + token}}, workers)
}

// StartTraffic sends requests from several workers, each on connections that stay
// open, until Stop.
func StartTraffic(url string, header http.Header, workers int) *Load {
	return StartConnections(url, header, workers, 0)
}

// StartConnections is [StartTraffic] with a new connection for every few requests
// of a worker; 0 means never.
func StartConnections(url string, header http.Header, workers, perConnection int) *Load {
	return StartChecked(url, header, workers, perConnection, func(*Response) string { return "" })
}

// StartChecked is [StartConnections] with a look at every answer with status 200: a
// text other than "" says what is wrong with it, and counts as a failure. Workers
// call it side by side.
func StartChecked(url string, header http.Header, workers, perConnection int, wrong func(*Response) string) *Load {
	return startLoad(func() string { return url }, header, workers, perConnection, wrong)
}

// StartMoving is [StartTraffic] that asks for the address of every single request. Workers ask side by
// side.
func StartMoving(url func() string, header http.Header, workers int) *Load {
	return startLoad(url, header, workers, 0, func(*Response) string { return "" })
}

func startLoad(url func() string, header http.Header, workers, perConnection int, wrong func(*Response) string) *Load {
	l := &Load{stop: make(chan struct{}), results: map[string]int{}, each: make([]int, workers)}
	ginkgo.DeferCleanup(l.halt)
	for worker := range workers {
		l.done.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			for n := 1; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if perConnection > 0 && n%perConnection == 0 {
					transport.CloseIdleConnections()
				}
				r, err := Do(client, http.MethodGet, url(), header.Clone(), "")
				var outcome string
				switch {
				case err != nil:
					outcome = err.Error()
				case r.Status != http.StatusOK:
					outcome = fmt.Sprintf("%d %s", r.Status, r.Body)
				default:
					outcome = wrong(r)
				}
				l.mu.Lock()
				l.total++
				l.each[worker]++
				if outcome != "" {
					l.results[outcome]++
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// Served waits until n more requests have been answered, and of each worker one that it began
// after the call: what was under way before has ended then, however late a worker came to it.
func (l *Load) Served(n int) {
	l.mu.Lock()
	goal, before := l.total+n, slices.Clone(l.each)
	l.mu.Unlock()
	gomega.Eventually(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for worker, answered := range before {
			if l.each[worker] < answered+2 {
				return false
			}
		}
		return l.total >= goal
	}, 60*time.Second, 10*time.Millisecond).Should(gomega.BeTrue(), "requests that are answered")
}

// Total is how many requests have been answered.
func (l *Load) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Failed is how many requests have not been answered with a 200, or with a wrong one.
func (l *Load) Failed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.results {
		n += times
	}
	return n
}

// Stop ends the traffic and returns every outcome that was not a 200, or a wrong one.
func (l *Load) Stop() (total int, failures []string) {
	l.halt()
	for _, k := range slices.Sorted(maps.Keys(l.results)) {
		failures = append(failures, fmt.Sprintf("%d times %s", l.results[k], k))
	}
	return l.total, failures
}

func (l *Load) halt() {
	l.once.Do(func() { close(l.stop) })
	l.done.Wait()
}
