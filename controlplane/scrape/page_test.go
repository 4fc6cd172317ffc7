package scrape_test

import (
	"bytes"
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
		hang := func(netip.AddrPort) error { time.Sleep(time.Minute); return errors.New("late") } // virtual time
		p, begun := pageOf(&envoy{text: statistics}, hang, applications...), time.Now()
		page := read(t, p)
		if took := time.Since(begun); took != 4*time.Second || strings.Count(page, "} 0\n") != 5 || !strings.Contains(page, "envoy_a 1") {
			t.Errorf("after %s:\n%s", took, page)
		}
		time.Sleep(time.Minute) // until those who hang have ended
	})
}

// slow is a client that takes nothing of what is sent to it before it is released.
type slow struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s slow) Write(b []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(b)
}

// TestManyReaders: one page is told again. Clients that are slow do not shut out others: these wait
// for their turn, though not for ever.
func TestManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &envoy{text: statistics}
		p := pageOf(e, anywhere)
		ask := func(w http.ResponseWriter) {
			p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		}
		release := make(chan struct{})
		var readers sync.WaitGroup
		for range 16 {
			readers.Go(func() { ask(slow{httptest.NewRecorder(), release}) })
		}
		synctest.Wait()
		late, begun := httptest.NewRecorder(), time.Now()
		if ask(late); late.Code != http.StatusServiceUnavailable || time.Since(begun) != 3*time.Second {
			t.Errorf("one too many is answered with %d after %s", late.Code, time.Since(begun))
		}
		next := httptest.NewRecorder()
		readers.Go(func() { ask(next) })
		synctest.Wait()
		release <- struct{}{}
		synctest.Wait()
		if next.Code != http.StatusOK || !strings.Contains(next.Body.String(), "envoy_a 1") {
			t.Errorf("one that waits for its turn is answered with %d", next.Code)
		}
		close(release)
		readers.Wait()
		if len(e.asked) != 2 { // the second time after three seconds
			t.Errorf("Envoy was asked %d times", len(e.asked))
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST is answered with %d", w.Code)
		}
	})
}

// deadlines is a client that notes until when each part has to be taken.
type deadlines struct {
	*httptest.ResponseRecorder
	until []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.until = append(d.until, at)
	return nil
}

func (d *deadlines) Write(b []byte) (int, error) {
	time.Sleep(time.Second) // virtual time
	return d.ResponseRecorder.Write(b)
}

// TestProgress: whoever has a page sent to it has to take it part by part, and has a bound for all.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, begun := strings.Repeat("# "+strings.Repeat("x", 1021)+"\n", 20)+"# TYPE envoy_a counter\n"+strings.Repeat("envoy_a 1\n", 500_000), time.Now()
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		pageOf(&envoy{text: text}, anywhere).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if len(w.until) < 12 || w.until[0].Sub(begun) != 2*time.Second || w.until[1].Sub(begun) != 3*time.Second || w.until[11].Sub(begun) != 10*time.Second {
			t.Errorf("%d parts, until %v", len(w.until), w.until)
		}
	})
}

// TestNoSecretsInTheLog: the query of an application is not in the log, and no more than the
// beginning of what it answers.
func TestNoSecretsInTheLog(t *testing.T) {
	var log bytes.Buffer
	p := scrape.New(scrape.Options{Envoy: (&envoy{text: statistics}).fetch, May: func(at netip.AddrPort) error {
		if at.Port() == 1 {
			return errors.New("refused here")
		}
		return nil
	}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	long := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", strings.Repeat("long", 1000))
	})
	p.Set(&scraping.Settings{Applications: []scraping.Application{
		{Name: "a", At: netip.MustParseAddrPort("127.0.0.1:1"), Path: "/x?token=hidden"}, {Name: "b", At: netip.MustParseAddrPort("127.0.0.1:1"), Path: "x?token=hidden%zz"}, long,
	}})
	read(t, p)
	if text := log.String(); strings.Contains(text, "hidden") || !strings.Contains(text, "refused here") || strings.Count(text, "level=WARN") != 3 || len(text) > 1500 {
		t.Error(text)
	}
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
