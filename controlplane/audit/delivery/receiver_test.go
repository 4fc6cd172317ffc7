package delivery

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// receiver is a SIEM that answers as it is told, and notes what it has taken.
type receiver struct {
	*httptest.Server
	mu sync.Mutex
	// answers are those of the next requests, or [unreached]; 200 after them.
	answers []int
	// later, if set, is what it says with 429 and 503 about when to ask again.
	later string
	// refuses has the ids of events with which a request is answered with refusal, or 400 if that is 0.
	refuses map[string]bool
	refusal int
	// bears, if set, is how many events it bears at once. With more it answers 500, or, if it cuts, nothing.
	bears int
	cuts  bool
	// silent, if set, is what a request waits for before it is answered.
	silent chan struct{}
	// instead, if set, answers all requests.
	instead http.HandlerFunc
	taken   []string
	tries   int
	streak  streak
	seen    chan struct{}
}

func newReceiver(t testing.TB, answers ...int) *receiver {
	r := &receiver{answers: answers, seen: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		serve := r.instead
		r.mu.Unlock()
		if serve == nil {
			serve = r.serve
		}
		serve(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// answering has something else answer all requests; nil ends it.
func (r *receiver) answering(instead http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = instead
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	ids, ok := idsIn(req)
	r.mu.Lock()
	silent := r.silent
	r.tries++
	r.mu.Unlock()
	if silent != nil {
		r.seen <- struct{}{}
		<-silent
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status, outage := http.StatusOK, len(r.answers) > 0
	switch {
	case outage:
		status, r.answers = r.answers[0], r.answers[1:]
	case !ok:
		status = http.StatusUnauthorized
	case r.bears > 0 && len(ids) > r.bears && r.cuts:
		panic(http.ErrAbortHandler)
	case r.bears > 0 && len(ids) > r.bears:
		status = http.StatusInternalServerError
	case slices.ContainsFunc(ids, func(id string) bool { return r.refuses[id] }):
		status = cmp.Or(r.refusal, http.StatusBadRequest)
	}
	r.streak.note(ids, status, outage)
	if status == http.StatusOK {
		r.taken = append(r.taken, ids...)
	}
	if r.later != "" && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		w.Header().Set("Retry-After", r.later)
	}
	w.WriteHeader(status)
	r.seen <- struct{}{}
}

// idsIn are the ids of the events in a request, and whether its credential is right.
func idsIn(req *http.Request) (ids []string, ok bool) {
	ok = req.Header.Get("Authorization") == "Basic c2VjcmV0"
	for lines := bufio.NewScanner(req.Body); lines.Scan(); {
		var e struct {
			ID string `json:"event_id"`
		}
		ok = ok && json.Unmarshal(lines.Bytes(), &e) == nil
		ids = append(ids, e.ID)
	}
	return ids, ok
}

func (r *receiver) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken)
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries
}
