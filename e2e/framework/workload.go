package framework

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Workload is an HTTP server of the test behind a sidecar. It answers with its
// name and what it received.
type Workload struct {
	*httptest.Server
	Name string
	Port int
	// Held receives a value when a request whose path ends in /hold has arrived;
	// it is answered when Release is closed.
	Held, Release chan struct{}
}

// Received is the answer of a [Workload].
type Received struct {
	Name    string      `json:"name"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	Headers http.Header `json:"headers"`
}

// StartWorkload starts one on 127.0.0.1.
func StartWorkload(name string) *Workload {
	w := &Workload{Name: name, Held: make(chan struct{}, 100), Release: make(chan struct{})}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hold") {
			Hold(r, w.Held, w.Release)
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(Received{name, r.Host, r.URL.RequestURI(), r.Header})
	}))
	ginkgo.DeferCleanup(func() { EndServer(w.Server) })
	w.Port = w.Listener.Addr().(*net.TCPAddr).Port
	return w
}

// Hold keeps a request waiting: it tells held, and returns once release is closed or
// the client has gone.
func Hold(r *http.Request, held chan<- struct{}, release <-chan struct{}) {
	held <- struct{}{}
	select {
	case <-release:
	case <-r.Context().Done():
	}
}

// EndServer closes a server of the test together with its connections. Close alone
// waits for requests that are held, without end: a spec that failed before it
// released them would keep its suite from ending.
func EndServer(s *httptest.Server) {
	s.CloseClientConnections()
	s.Close()
}

// Received decodes the answer of a [Workload].
func (r *Response) Received() (out Received) {
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	gomega.ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &out)).To(gomega.Succeed(), r.Body)
	return out
}

// StartEcho starts a TCP server on 127.0.0.1 that answers every line with its
// name and the line, and returns its port.
func StartEcho(name string) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	var work sync.WaitGroup
	var mu sync.Mutex
	open, over := map[net.Conn]bool{}, false
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			if over { // it was accepted just before the end
				_ = conn.Close()
			}
			mu.Unlock()
			work.Go(func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := fmt.Fprintf(conn, "%s %s\n", name, lines.Text()); err != nil {
						break
					}
				}
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
				_ = conn.Close()
			})
		}
	})
	ginkgo.DeferCleanup(func() {
		_ = ln.Close()
		mu.Lock()
		over = true
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return ln.Addr().(*net.TCPAddr).Port
}
