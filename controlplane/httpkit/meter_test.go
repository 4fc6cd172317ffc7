package httpkit

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// meter sends what it is told to a channel. A client may have its answer, or the end of its
// connection, before the request is over.
type meter chan Served

func (m meter) Served(s Served) { m <- s }

// TestMeter: each request is reported once, with values that no client can choose.
func TestMeter(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	router := NewRouter([]Endpoint{
		{Method: http.MethodGet, Pattern: "/things/{thing}", Auth: Open, Handler: ok},
		{Method: http.MethodGet, Pattern: "/panics", Auth: Open, Handler: func(http.ResponseWriter, *http.Request) { panic("x") }},
		{Method: http.MethodGet, Pattern: "/aborts", Auth: Open, Handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{Method: http.MethodGet, Pattern: "/taken", Auth: Open, Handler: func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		}},
	}, RefuseMessage)
	told := make(meter, 16)
	mux := http.NewServeMux()
	mux.Handle("/", router)
	mux.Handle("/named", Named("/named", http.HandlerFunc(ok)))
	s := httptest.NewServer(NewServer("main", mux, slog.New(slog.DiscardHandler), Limits{}, told).http.Handler)
	var got []Served
	for _, request := range [][2]string{
		{"GET", "/things/secret"}, {"HEAD", "/things/x/"}, {"POST", "/things/x"}, {"BREW", "/things/x"},
		{"GET", "/nowhere"}, {"GET", "/panics"}, {"GET", "/aborts"}, {"GET", "/taken"}, {"GET", "/named"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), request[0], s.URL+request[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := s.Client().Do(r); err == nil {
			_ = resp.Body.Close()
		}
		if request[1] == "/taken" { // a connection that was taken over does not count as a request
			continue
		}
		select {
		case served := <-told:
			got = append(got, served)
		case <-time.After(time.Minute):
			t.Fatalf("nothing is told of %v", request)
		}
	}
	s.Close()
	close(told)
	for served := range told {
		got = append(got, served)
	}
	want := []Served{
		{"main", "GET", "/things/{thing}", 204, 0, false}, {"main", "HEAD", "/things/{thing}", 204, 0, false},
		{"main", "POST", "/things/{thing}", 405, 0, false}, {"main", OtherMethod, "/things/{thing}", 405, 0, false},
		{"main", "GET", "", 404, 0, false}, {"main", "GET", "/panics", 500, 0, true}, {"main", "GET", "/aborts", 200, 0, false},
		{"main", "GET", "/named", 204, 0, false},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Served{}, "Took")); diff != "" {
		t.Error(diff)
	}
}
