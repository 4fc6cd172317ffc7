package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/e2e/ports"
)

// fakeEnvoy is an Envoy that provides only what the status reads.
type fakeEnvoy struct {
	pid     int
	leaving bool
	answer  func(ctx context.Context) error
}

func (f *fakeEnvoy) PID() int      { return f.pid }
func (f *fakeEnvoy) Leaving() bool { return f.leaving }
func (f *fakeEnvoy) Do(ctx context.Context, _, path string) (string, error) {
	if path != "/ready" {
		return "", errors.New("asked for " + path)
	}
	return "LIVE\n", f.answer(ctx)
}

// TestStatus checks what load balancers are told in each state.
func TestStatus(t *testing.T) {
	live := func(context.Context) error { return nil }
	for _, test := range []struct {
		name                      string
		ending, starting, waiting bool
		envoy                     fakeEnvoy
		refused                   map[string]string
		blind                     string
		want                      string
	}{
		{name: "Envoy lacks listeners", envoy: fakeEnvoy{pid: 1, answer: live}, refused: map[string]string{"inbound:1": "in use", "inbound:0": "in use"},
			want: statusRefused + "inbound:0, inbound:1"},
		{name: "Envoy with other troubles", envoy: fakeEnvoy{pid: 1, answer: func(context.Context) error { return errors.New("refused") }},
			refused: map[string]string{"inbound:1": "in use"}, want: statusAway},
		{name: "can decide no token", blind: statusBlind, envoy: fakeEnvoy{pid: 1, answer: live}, want: statusBlind},
		{name: "serves", envoy: fakeEnvoy{pid: 1, answer: live}},
		{name: "shall end", ending: true, envoy: fakeEnvoy{pid: 1, answer: live}, want: statusDraining},
		{name: "drains because a part has failed", envoy: fakeEnvoy{pid: 1, leaving: true, answer: live}, want: statusDraining},
		{name: "is not enrolled", starting: true, waiting: true, want: statusStarting},
		{name: "is told nothing to serve", waiting: true, want: statusUnconfigured},
		{name: "Envoy has died", envoy: fakeEnvoy{answer: live}, want: statusAway},
		{name: "Envoy starts", envoy: fakeEnvoy{pid: 1, answer: func(context.Context) error {
			return &statusError{http.MethodGet, "/ready", http.StatusServiceUnavailable}
		}}, want: statusStarting},
		{name: "Envoy refuses connections", envoy: fakeEnvoy{pid: 1, answer: func(context.Context) error { return errors.New("refused") }}, want: statusAway},
		{name: "Envoy hangs", envoy: fakeEnvoy{pid: 1, answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, want: statusAway},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leaving, end := context.WithCancel(t.Context())
				defer end()
				configured := make(chan struct{})
				s := &status{envoy: &test.envoy, admin: &test.envoy, leaving: leaving, configured: configured, refused: func() map[string]string { return test.refused }, blind: func(context.Context) string { return test.blind }}
				s.enrolled.Store(!test.starting)
				if test.ending {
					end()
				}
				if !test.waiting {
					close(configured)
				}
				h, begun := s.handler(), time.Now()
				code, text := http.StatusOK, "ready"
				if test.want != "" {
					code, text = http.StatusServiceUnavailable, test.want
				}
				expectStatus(t, h, "/ready", code, text)
				if took := time.Since(begun); took > askTime {
					t.Errorf("took %s", took)
				}
				expectStatus(t, h, "/live", http.StatusOK, "live")
			})
		})
	}
}

func expectStatus(t *testing.T, h http.Handler, path string, code int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != code || !strings.Contains(w.Body.String(), `"`+text+`"`) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s answered %d %s, not %d with %q", path, w.Code, w.Body, code, text)
	}
}

// TestStatusIsAskedOnce: many concurrent checks cause one request to Envoy. A check at the
// end does not get an answer from before the end.
func TestStatusIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving, end := context.WithCancel(t.Context())
		asked, held := 0, make(chan struct{})
		envoy := &fakeEnvoy{pid: 1, answer: func(context.Context) error { asked++; <-held; return nil }}
		configured := make(chan struct{})
		close(configured)
		s := &status{envoy: envoy, admin: envoy, leaving: leaving, configured: configured, refused: func() map[string]string { return nil }}
		s.enrolled.Store(true)
		told := make(chan string, 100)
		for range cap(told) {
			go func() { told <- s.missing(t.Context()) }()
		}
		synctest.Wait()
		end()
		close(held)
		for range cap(told) {
			if got := <-told; got != statusDraining {
				t.Errorf("told %q", got)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestServeStatus: the status is served from the start of an agent to its end, on the given
// address, and not at all without one.
func TestServeStatus(t *testing.T) {
	free, err := ports.Free(1) // nobody else is given it while it is closed
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", free[0])
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Options: Options{StatusAddress: address, Log: slog.New(newRecorder())}}
	s := &status{envoy: &fakeEnvoy{}, leaving: t.Context()}
	if _, err := a.serveStatus(s); err == nil || !strings.HasPrefix(err.Error(), "status.port: ") {
		t.Errorf("on a port that is taken: %v", err)
	}
	_ = ln.Close()
	stop, err := a.serveStatus(s)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + address + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), statusStarting) {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	stop()
	if _, err := client.Get("http://" + address + "/ready"); err == nil {
		t.Error("it is served after its end")
	}
	a.StatusAddress = ""
	if stop, err = a.serveStatus(s); err != nil {
		t.Fatal(err)
	}
	stop()
}

// TestStatusServesMetrics: the metrics are served beside the status if there are any, and
// are not found otherwise.
func TestStatusServesMetrics(t *testing.T) {
	for _, with := range []bool{true, false} {
		s, want := &status{}, http.StatusNotFound
		if with {
			s.metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") })
			want = http.StatusOK
		}
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != want || (w.Body.String() == "a 1\n") != with {
			t.Errorf("with metrics %t: %d %s", with, w.Code, w.Body)
		}
	}
}
