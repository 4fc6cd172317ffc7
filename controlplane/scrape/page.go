package scrape

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/recent"
	"github.com/meshgate/meshgate/xds/scraping"
)

// Bounds of the page.
const (
	// pageAge is how long a page is told again.
	pageAge = time.Second
	// pageTime is how long Envoy and the applications may take, together.
	pageTime = 4 * time.Second
	// maxReaders and maxConnections bound who has a page sent to it at a time, and who waits for
	// that. A reader costs little: all of a second read the same bytes.
	maxReaders     = 16
	maxConnections = 64
	// turnTime is how long a client waits for its turn.
	turnTime = 3 * time.Second
	// partBytes is what a client has to take within partTime, and sendTime the time for all.
	partBytes = 256 << 10
	partTime  = 2 * time.Second
	sendTime  = 10 * time.Second
)

// ContentType is that of the page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// limits of the server, whose only client is Envoy.
var limits = httpkit.Limits{
	HeaderBytes: 64 << 10, BodyBytes: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
	IdleTimeout: 30 * time.Second, Grace: time.Second,
}

// Options configure a page.
type Options struct {
	// Envoy asks Envoy's administration for a path, whose answer the page closes.
	Envoy func(ctx context.Context, path string) (io.ReadCloser, error)
	// May returns an error for an address at which no application may be asked.
	May func(netip.AddrPort) error
	Log *slog.Logger
}

// Page is the page of one proxy. Its methods may be called concurrently.
type Page struct {
	o        Options
	settings atomic.Pointer[scraping.Settings]
	whole    *recent.Value[[]byte]
	// readers has an entry for each who may have the page sent to it.
	readers chan struct{}
	// failing are the sources that did not answer last time, with the reasons. Only one page is
	// made at a time.
	failing map[string]string
}

// New returns a page of what Envoy counts.
func New(o Options) *Page {
	p := &Page{o: o, readers: make(chan struct{}, maxReaders), failing: map[string]string{}}
	p.settings.Store(&scraping.Settings{})
	p.whole = recent.New(pageAge, func(ctx context.Context) ([]byte, error) { return p.make(ctx), nil })
	return p
}

// Set says what the page consists of from now on; nil means what Envoy counts. A page that is just
// being made, or is told again, is still of before.
func (p *Page) Set(s *scraping.Settings) {
	if s == nil {
		s = &scraping.Settings{}
	}
	p.settings.Store(s)
}

// Serve serves the page until ctx ends, and closes the listener.
func (p *Page) Serve(ctx context.Context, lis net.Listener) error {
	return httpkit.NewServer("metrics", httpkit.Named("/metrics", p), p.o.Log, limits).Serve(ctx, netutil.LimitListener(lis, maxConnections))
}

// ServeHTTP implements [http.Handler]. It tells the page at any path: the listener of the proxy has
// chosen that.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are only read", http.StatusMethodNotAllowed)
		return
	}
	if !p.enter(r.Context()) {
		http.Error(w, "too many read the metrics at a time", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-p.readers }()
	text, err := p.whole.Get(r.Context())
	if err != nil {
		return // the client has gone
	}
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	send(w, text)
}

// enter waits for a turn, though not for long.
func (p *Page) enter(ctx context.Context) bool {
	waits := time.NewTimer(turnTime)
	defer waits.Stop()
	select {
	case p.readers <- struct{}{}:
		return true
	case <-waits.C:
	case <-ctx.Done():
	}
	return false
}

// send writes a page part by part. A client that takes nothing gives up its turn soon.
func send(w http.ResponseWriter, text []byte) {
	last, out := time.Now().Add(sendTime), http.NewResponseController(w)
	for part := range slices.Chunk(text, partBytes) {
		until := time.Now().Add(partTime)
		if until.After(last) {
			until = last
		}
		_ = out.SetWriteDeadline(until) // without one, that of the server counts
		if _, err := w.Write(part); err != nil {
			return // the client has gone
		}
	}
}

// answer is what became of asking one source.
type answer struct {
	text []byte
	err  error
	took time.Duration
}

// make asks everybody at once and merges the answers.
func (p *Page) make(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	s := p.settings.Load()
	answers := make([]answer, 1+len(s.Applications))
	var asked sync.WaitGroup
	timed := func(into *answer, ask func() ([]byte, error)) {
		asked.Go(func() {
			begun := time.Now()
			into.text, into.err = ask()
			into.took = time.Since(begun)
			if into.err != nil {
				into.text = nil // a part is not the whole
			}
		})
	}
	timed(&answers[0], func() ([]byte, error) { return p.statistics(ctx, s) })
	each, client := budgetOf(len(s.Applications)), newClient(ctx, p.o.May)
	defer client.CloseIdleConnections()
	for i, a := range s.Applications {
		timed(&answers[1+i], func() ([]byte, error) { return ask(ctx, client, a, each) })
	}
	asked.Wait()
	p.note(ctx, s, answers)
	return page(s, answers)
}

// statistics asks Envoy.
func (p *Page) statistics(ctx context.Context, s *scraping.Settings) ([]byte, error) {
	query := url.Values{}
	if s.Filter != "" {
		query.Set("filter", s.Filter)
	}
	path := "/stats/prometheus"
	if s.UsedOnly {
		query.Set("usedonly", "")
	}
	if len(query) > 0 {
		path += "?" + strings.ReplaceAll(query.Encode(), "+", "%20") // Envoy reads no plus as a blank
	}
	body, err := p.o.Envoy(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return readAll(body, maxEnvoyBytes)
}

// note logs the beginning and the end of trouble, and no more: anybody may ask, at any rate.
func (p *Page) note(ctx context.Context, s *scraping.Settings, answers []answer) {
	now := map[string]string{}
	say := func(name string, err error) {
		was, failed := p.failing[name]
		switch {
		case err != nil:
			if now[name] = err.Error(); !failed {
				p.o.Log.WarnContext(ctx, "metrics are left out of the page of the proxy", "source", name, "error", err)
			}
		case failed:
			p.o.Log.InfoContext(ctx, "metrics are on the page of the proxy again", "source", name, "were_left_out", was)
		}
	}
	say("envoy", answers[0].err)
	for i, a := range s.Applications {
		say("application "+strconv.Quote(a.Name), answers[1+i].err)
	}
	p.failing = now
}

// The families about the page itself.
const (
	familyEnvoy   = "meshgate_scrape_envoy_up"
	familyUp      = "meshgate_scrape_up"
	familyTook    = "meshgate_scrape_duration_seconds"
	familyLeftOut = "meshgate_scrape_left_out_lines"
)

// page merges the answers, and says at its end who has answered.
func page(s *scraping.Settings, answers []answer) []byte {
	sources := make([]Source, len(s.Applications))
	for i, a := range s.Applications {
		sources[i] = Source{Name: a.Name, Text: answers[1+i].text}
	}
	text, ofEnvoy, reports := Merge(answers[0].text, sources, familyEnvoy, familyUp, familyTook, familyLeftOut)
	up := Family{Name: familyUp, Help: "Whether the application has answered, and its metrics are on this page."}
	took := Family{Name: familyTook, Help: "How long the application took to answer, or until it was given up."}
	left := Family{Name: familyLeftOut, Help: "Lines that were left out: not in order, with a reserved name, with a name that the page has otherwise, or there already."}
	for i, a := range s.Applications {
		name := map[string]string{"application": a.Name}
		up.Series = append(up.Series, Series{name, flag(answers[1+i].err == nil)})
		took.Series = append(took.Series, Series{name, answers[1+i].took.Seconds()})
		left.Series = append(left.Series, reports[i].series(a.Name)...)
	}
	left.Series = append(left.Series, ofEnvoy.series("")...)
	envoy := Family{Name: familyEnvoy, Help: "Whether this page has the statistics of Envoy.", Series: []Series{{nil, flag(answers[0].err == nil)}}}
	for _, f := range []Family{envoy, up, took, left} {
		if len(f.Series) > 0 {
			text = f.appendTo(text)
		}
	}
	return text
}

// series tells what of a source was left out. The name is empty for Envoy.
func (r *Report) series(application string) (out []Series) {
	for _, one := range []struct {
		reason string
		n      int
	}{{"malformed", r.Malformed}, {"reserved", r.Reserved}, {"conflict", r.Conflicts}, {"duplicate", r.Duplicates}} {
		if one.n > 0 {
			out = append(out, Series{map[string]string{"application": application, "reason": one.reason}, float64(one.n)})
		}
	}
	return out
}

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
