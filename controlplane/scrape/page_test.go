package scrape_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/scrape"
	"github.com/meshgate/meshgate/xds/scraping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const statistics = "# TYPE envoy_a counter\nenvoy_a 1\n"

// envoy answers with a text, and notes what it is asked.
type envoy struct {
	text  string
	err   error
	mu    sync.Mutex
	asked []string
}

func (e *envoy) fetch(_ context.Context, path string) (io.ReadCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, path)
	return io.NopCloser(strings.NewReader(e.text)), e.err
}

func anywhere(netip.AddrPort) error { return nil }

func pageOf(e *envoy, may func(netip.AddrPort) error, applications ...scraping.Application) *scrape.Page {
	p := scrape.New(scrape.Options{Envoy: e.fetch, May: may, Log: slog.New(slog.DiscardHandler)})
	p.Set(&scraping.Settings{Applications: applications})
	return p
}

func read(t *testing.T, p *scrape.Page) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?filter=other", nil))
	if h := w.Header(); w.Code != http.StatusOK || h.Get("Content-Type") != scrape.ContentType || h.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v", w.Code, h)
	}
	return w.Body.String()
}

// serve starts an application.
func serve(t *testing.T, h http.HandlerFunc) scraping.Application {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return scraping.Application{Name: "app", At: netip.MustParseAddrPort(s.Listener.Addr().String()), Path: "/stats?format=text"}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// TestApplications: what an application does is told on the page, and never costs what Envoy says
// or what another application does.
func TestApplications(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		may    error
		up     bool
		want   string
	}{
		"metrics": {says("# TYPE a counter\na 1\n"), nil, true, "# TYPE a counter\na 1\n"},
		"with a type": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_, _ = fmt.Fprintf(w, "a{path=%q,encoding=%q,accept=%q} 1\n", r.URL, r.Header.Get("Accept-Encoding"), r.Header.Get("Accept"))
		}, nil, true, `a{accept="text/plain;version=0.0.4",encoding="identity",path="/stats?format=text"} 1`},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "\x00\xff<html>\n")
		}, nil, true, `meshgate_scrape_left_out_lines{application="app",reason="malformed"} 1`},
		"not permitted": {says("a 1\n"), errors.New("no"), false, ""},
		"an error":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a 1", http.StatusInternalServerError) }, nil, false, ""},
		"another place": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/there" {
				_, _ = io.WriteString(w, "a 1\n")
				return
			}
			http.Redirect(w, r, "/there", http.StatusFound)
		}, nil, false, ""},
		"an encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "a 1\n")
		}, nil, false, ""},
		"another type": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "a 1\n")
		}, nil, false, ""},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			for range 9 << 10 {
				if _, err := io.WriteString(w, "# "+strings.Repeat("x", 1021)+"\n"); err != nil {
					return
				}
			}
		}, nil, false, ""},
		"too many lines": {says(strings.Repeat("a 1\n", 100_001)), nil, false, ""},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "a 1\n")
		}, nil, false, ""},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 64<<10))
			_, _ = io.WriteString(w, "a 1\n")
		}, nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app, other := serve(t, tt.answer), serve(t, says("b 1\n"))
			other.Name = "other"
			p := pageOf(&envoy{text: statistics}, func(at netip.AddrPort) error {
				if at == app.At {
					return tt.may
				}
				return nil
			}, app, other)
			page, up := read(t, p), "0"
			if tt.up {
				up = "1"
			}
			for _, want := range []string{"envoy_a 1\n", "\nb 1\n", `meshgate_scrape_up{application="other"} 1`, `meshgate_scrape_up{application="app"} ` + up, "meshgate_scrape_envoy_up 1\n", tt.want} {
				if !strings.Contains(page, want) {
					t.Errorf("%q is missing in\n%s", want, page)
				}
			}
			if !tt.up && strings.Contains(page, "\na 1\n") {
				t.Errorf("a part of an answer is there:\n%s", page)
			}
		})
	}
}

// TestEnvoyIsAsked: with what the settings say, and nothing that a client says.
func TestEnvoyIsAsked(t *testing.T) {
	for want, s := range map[string]*scraping.Settings{
		"/stats/prometheus":                                    nil,
		"/stats/prometheus?usedonly=":                          {UsedOnly: true},
		"/stats/prometheus?filter=a%2B%20%26b%7C%22&usedonly=": {UsedOnly: true, Filter: `a+ &b|"`},
	} {
		e := &envoy{text: statistics}
		p := pageOf(e, anywhere)
		p.Set(s)
		read(t, p)
		if len(e.asked) != 1 || e.asked[0] != want {
			t.Errorf("asked %q, want %q", e.asked, want)
		}
	}
}

// TestWithoutEnvoy: an Envoy that does not answer is told, and the applications are there.
func TestWithoutEnvoy(t *testing.T) {
	page := read(t, pageOf(&envoy{err: errors.New("away")}, anywhere, serve(t, says("a 1\n"))))
	if !strings.Contains(page, "meshgate_scrape_envoy_up 0\n") || !strings.Contains(page, "\na 1\n") {
		t.Error(page)
	}
}

// TestOneTimeForAll: applications that hang cost a page its bound of time, once, and are told to be
// away.
func TestOneTimeForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var applications []scraping.Application
		for i := range 5 {
			applications = append(applications, scraping.Application{Name: fmt.Sprint(i), At: netip.MustParseAddrPort("127.0.0.1:1"), Path: "/"})
		}
		hang := func(netip.AddrPort) error { time.Sleep(4 * time.Second); return errors.New("late") } // virtual time
		p, begun := pageOf(&envoy{text: statistics}, hang, applications...), time.Now()
		page := read(t, p)
		if took := time.Since(begun); took != 4*time.Second || strings.Count(page, "} 0\n") != 5 || !strings.Contains(page, "envoy_a 1") {
			t.Errorf("after %s:\n%s", took, page)
		}
	})
}

// TestManyReaders: one page is told again, and only a few have it sent to them at a time.
func TestManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := scrape.New(scrape.Options{Log: slog.New(slog.DiscardHandler), May: anywhere, Envoy: func(context.Context, string) (io.ReadCloser, error) {
			<-release
			return io.NopCloser(strings.NewReader(statistics)), nil
		}})
		var served, refused atomic.Int32
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				if w.Code == http.StatusOK {
					served.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		close(release)
		readers.Wait()
		if served.Load() != 4 || refused.Load() != 16 {
			t.Errorf("served %d, refused %d", served.Load(), refused.Load())
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST is answered with %d", w.Code)
		}
	})
}

// TestServe: the page is served on a socket until it has to end.
func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "m.sock")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := pageOf(&envoy{text: statistics}, anywhere)
	go func() { ended <- p.Serve(ctx, lis) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := client.Get("http://agent/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(text), "envoy_a 1") {
		t.Errorf("%v\n%s", err, text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
