package agent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
)

// fakeAdmin is the admin interface of an Envoy without traffic. It records the requests.
type fakeAdmin struct {
	mu    sync.Mutex
	asked []string
}

func (f *fakeAdmin) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
}

// serve serves on a Unix socket and returns a client.
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

// TestPortAdmin sends requests to a port on loopback.
func TestPortAdmin(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Method + " " + r.URL.Path)) }))
	defer s.Close()
	got, err := NewPortAdmin(s.Listener.Addr().(*net.TCPAddr).Port).Do(t.Context(), http.MethodGet, "/ready")
	if err != nil || got != "GET /ready" {
		t.Errorf("%q, %v", got, err)
	}
}
