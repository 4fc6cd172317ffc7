package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/meshgate/meshgate/controlplane/recent"
)

// Bounds of one scrape. Statistics of Envoy that are larger or slower are left out, and a
// metric says so.
const (
	maxEnvoyPage = 32 << 20
	envoyTime    = 4 * time.Second
)

// Scrape serves the metrics of a node in one page: those of its agent, followed by the
// statistics of its Envoy, including the filter's. The page is always valid, no matter what
// Envoy answers. Without an Envoy it has only the agent's metrics.
type Scrape struct {
	own   *prometheus.Registry
	envoy func(context.Context) (io.ReadCloser, error)
	log   *slog.Logger
	whole *recent.Value[[]byte]
	// left says that Envoy's statistics were left out of the last page. Only the beginning
	// and the end are logged, because anybody may ask, at any rate.
	left atomic.Bool

	gathered prometheus.Gauge
	reached  prometheus.Gauge
	took     prometheus.Gauge
	dropped  prometheus.Gauge
}

// NewScrape returns the page of a node. own are the metrics of the agent. envoy asks Envoy
// for its statistics in Prometheus' text format.
func NewScrape(own *prometheus.Registry, envoy func(context.Context) (io.ReadCloser, error), log *slog.Logger) *Scrape {
	g := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "agent", Name: name, Help: help})
	}
	s := &Scrape{
		own: own, envoy: envoy, log: log, gathered: newGathered(),
		reached: g("envoy_scrape_success", "Whether this page has Envoy's statistics."),
		took:    g("envoy_scrape_duration_seconds", "How long Envoy took to answer with them."),
		dropped: g("envoy_scrape_dropped_lines", "Lines of them that were left out, because the page would not have been in order."),
	}
	own.MustRegister(s.Collectors()...)
	s.whole = recent.New(pageAge, s.page)
	return s
}

// Collectors lists the metrics about the page itself.
func (s *Scrape) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gathered, s.reached, s.took, s.dropped}
}

// ServeHTTP implements http.Handler. It asks Envoy at most once a second, and only one
// question at a time, no matter how many clients there are.
func (s *Scrape) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := s.whole.Get(r.Context())
	if r.Context().Err() != nil {
		return
	}
	if err != nil {
		s.log.ErrorContext(r.Context(), "metrics cannot be gathered", "error", err)
		http.Error(w, "metrics cannot be gathered", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the client may have gone
}

// page makes the whole page before its first byte is sent, so that a part is never mistaken
// for the whole.
func (s *Scrape) page(ctx context.Context) ([]byte, error) {
	begun := time.Now()
	s.gathered.Set(precise(begun))
	stats, err := s.statistics(ctx)
	switch was := s.left.Swap(err != nil); {
	case err != nil && !was:
		s.log.WarnContext(ctx, "the statistics of envoy are left out of a scrape, and of those that follow", "error", err)
	case err == nil && was:
		s.log.InfoContext(ctx, "the statistics of envoy are on the page again")
	}
	s.took.Set(time.Since(begun).Seconds())
	s.reached.Set(Flag(err == nil))
	s.dropped.Set(0)
	if stats != nil {
		s.dropped.Set(float64(stats.dropped))
	}
	families, err := s.own.Gather()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, err
		}
	}
	if stats != nil {
		out.Write(stats.text.Bytes())
	}
	return out.Bytes(), nil
}

// statistics returns Envoy's statistics, without families that share a name with one of the
// agent's.
func (s *Scrape) statistics(ctx context.Context) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, envoyTime)
	defer cancel()
	body, err := s.envoy(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	own, err := s.own.Gather()
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool, len(own))
	for _, f := range own {
		taken[f.GetName()] = true
	}
	return newPage(body, maxEnvoyPage, func(family string) bool { return taken[family] })
}
