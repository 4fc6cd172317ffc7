package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeAdmin is an admin interface that answers as told and remembers what it
// was asked.
type fakeAdmin struct {
	mu    sync.Mutex
	asked []string
	// stats returns the numbers of requests in flight at the nth question.
	stats  func(n int) (text string, status int)
	health int
}

func (f *fakeAdmin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	n := len(f.asked) - 2
	f.mu.Unlock()
	if r.URL.Path == "/healthcheck/fail" {
		w.WriteHeader(f.health)
		return
	}
	text, status := f.stats(n)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// serve serves on a Unix socket and returns its client.
func (f *fakeAdmin) serve(t *testing.T) *Admin {
	t.Helper()
	socket := filepath.Join(shortDir(t), "admin.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(f)
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	return NewAdmin(socket)
}

const statsQuestion = `GET /stats?filter=^http\..*downstream_rq_active$`

func active(n int) string {
	return fmt.Sprintf("http.admin.downstream_rq_active: 1\nhttp.gateway_http.downstream_rq_active: %d\nhttp.gateway_https.downstream_rq_active: 0\n", n)
}

// TestDrain returns when no request is left but the one that asks.
func TestDrain(t *testing.T) {
	f := &fakeAdmin{health: 200, stats: func(n int) (string, int) { return active(2 - n), 200 }}
	r := newRecorder()
	f.serve(t).Drain(t.Context(), slog.New(r))
	want := []string{"POST /healthcheck/fail", statsQuestion, statsQuestion, statsQuestion}
	if diff := cmp.Diff(want, f.asked); diff != "" {
		t.Error(diff)
	}
	if got := r.all(); got != nil {
		t.Errorf("logged %q", got)
	}
}

// ending is a context that ends when the test says so.
type ending struct {
	context.Context
	done   chan struct{}
	reason error
}

func (e *ending) Done() <-chan struct{} { return e.done }
func (e *ending) Err() error {
	select {
	case <-e.done:
		return e.reason
	default:
		return nil
	}
}

// TestDrainEnds gives up at the end of its time and says what it leaves behind;
// it says nothing where Envoy has ended by itself.
func TestDrainEnds(t *testing.T) {
	for _, test := range []struct {
		name   string
		reason error
		want   []string
	}{
		{"time is over", context.DeadlineExceeded, []string{"WARN drain time is over with requests in flight requests=3"}},
		{"envoy ended", context.Canceled, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := &ending{context.Background(), make(chan struct{}), test.reason}
			var once sync.Once
			f := &fakeAdmin{health: 200, stats: func(n int) (string, int) {
				if n == 2 {
					once.Do(func() { close(ctx.done) })
				}
				return active(3), 200
			}}
			r := newRecorder()
			f.serve(t).Drain(ctx, slog.New(r))
			if diff := cmp.Diff(test.want, r.all()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDrainFails never hangs on an Envoy that cannot be asked.
func TestDrainFails(t *testing.T) {
	for _, test := range []struct {
		name  string
		fake  *fakeAdmin
		want  string
		asked int
	}{
		{"refuses", &fakeAdmin{health: 503}, "WARN envoy cannot be drained error=envoy admin: POST /healthcheck/fail answered 503", 1},
		{"no stats", &fakeAdmin{health: 200, stats: func(int) (string, int) { return "", 500 }}, "WARN envoy does not say whether requests are in flight error=envoy admin: " + statsQuestion + " answered 500", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRecorder()
			test.fake.serve(t).Drain(t.Context(), slog.New(r))
			if diff := cmp.Diff([]string{test.want}, r.all()); diff != "" {
				t.Error(diff)
			}
			if len(test.fake.asked) != test.asked {
				t.Errorf("asked %q", test.fake.asked)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		r := newRecorder()
		NewAdmin(filepath.Join(shortDir(t), "none.sock")).Drain(t.Context(), slog.New(r))
		if got := r.all(); len(got) != 1 || !strings.HasPrefix(got[0], "WARN envoy cannot be drained") {
			t.Errorf("logged %q", got)
		}
	})
}

// TestPortAdmin asks over a port on loopback.
func TestPortAdmin(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Method + " " + r.URL.Path)) }))
	defer s.Close()
	got, err := NewPortAdmin(s.Listener.Addr().(*net.TCPAddr).Port).Do(t.Context(), http.MethodGet, "/ready")
	if err != nil || got != "GET /ready" {
		t.Errorf("%q, %v", got, err)
	}
}
