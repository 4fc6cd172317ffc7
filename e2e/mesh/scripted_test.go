package mesh_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// scripted is a workload that answers as it is told to, and notes what arrives.
type scripted struct {
	*httptest.Server
	mu sync.Mutex
	// script is what the next requests are answered with, first; usual is for the others.
	script  []answer
	usual   answer
	arrived []time.Time
}

// answer is a status, with which the workload waits until a request ends if it is 0.
type answer int

// never is an answer that never comes. limited is one with 429 and what Envoy says when it limits a
// rate, again one with 409 and the header x-again.
const (
	never   answer = 0
	limited answer = -429
	again   answer = -409
)

// startScripted starts one. A path that ends in /bytes/N is answered with N bytes.
func startScripted() *scripted {
	s := &scripted{usual: http.StatusOK}
	s.Server = serveAt("127.0.0.1", func(rw http.ResponseWriter, r *http.Request) {
		switch a := s.next(); {
		case a == never:
			<-r.Context().Done()
		case a == limited:
			rw.Header().Set("X-Envoy-Ratelimited", "true")
			rw.WriteHeader(http.StatusTooManyRequests)
		case a == again:
			rw.Header().Set("X-Again", "yes")
			rw.WriteHeader(http.StatusConflict)
		case a != http.StatusOK:
			rw.WriteHeader(int(a))
		default:
			if _, n, ok := strings.Cut(r.URL.Path, "/bytes/"); ok {
				size, _ := strconv.Atoi(n)
				_, _ = rw.Write(make([]byte, size))
				return
			}
			_, _ = fmt.Fprint(rw, "well")
		}
	})
	return s
}

func (s *scripted) next() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, time.Now())
	if len(s.script) == 0 {
		return s.usual
	}
	a := s.script[0]
	s.script = s.script[1:]
	return a
}

// says replaces the script and forgets what has arrived.
func (s *scripted) says(answers ...answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.arrived = answers, nil
}

// always replaces the usual answer.
func (s *scripted) always(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usual, s.script, s.arrived = a, nil, nil
}

// times are when requests arrived.
func (s *scripted) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.arrived...)
}

// serving is a member whose workload is scripted.
func (w *world) serving(name string, of tags, s *scripted) *member {
	return w.join(w.around(name, nil, portOf(s.Server), of))
}
