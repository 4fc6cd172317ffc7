package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed reads a page as Prometheus does, which refuses a page with a family twice.
func parsed(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families
}

func scraped(t *testing.T, s *Scrape) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Fatalf("%d %s", w.Code, got)
	}
	return parsed(t, w.Body.Bytes())
}

func answers(text string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

func own() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(Gauge("agent_envoy_up", "help", func() float64 { return 1 }))
	return r
}

func value(f *dto.MetricFamily) float64 {
	switch {
	case f == nil || len(f.Metric) == 0:
		return -1
	case f.Metric[0].Counter != nil:
		return f.Metric[0].Counter.GetValue()
	case f.Metric[0].Gauge != nil:
		return f.Metric[0].Gauge.GetValue()
	}
	return -1
}

// TestScrape: the page stays valid no matter what Envoy answers.
func TestScrape(t *testing.T) {
	const good = "# TYPE envoy_a counter\nenvoy_a{x=\"1\"} 3\n# TYPE envoy_h histogram\nenvoy_h_bucket{le=\"+Inf\"} 2\nenvoy_h_sum{} 4\nenvoy_h_count{} 2\n"
	for name, test := range map[string]struct {
		text    string
		dropped float64
	}{
		"in order":                      {good, 0},
		"a family twice":                {good + "# TYPE envoy_a counter\nenvoy_a{x=\"2\"} 9\n", 2},
		"a name of the agent's":         {"# TYPE meshgate_agent_envoy_up gauge\nmeshgate_agent_envoy_up 0\n" + good, 2},
		"a name of the page's own":      {"# TYPE meshgate_agent_envoy_scrape_success gauge\nmeshgate_agent_envoy_scrape_success 0\n" + good, 2},
		"samples before any family":     {"envoy_a{x=\"9\"} 1\n" + good, 1},
		"a sample of another family":    {good + "envoy_other 1\n", 1},
		"a name that only begins alike": {good + "envoy_h_bucket_x 1\n", 1},
		"texts for people":              {"# HELP envoy_a words\n\n# a remark\n" + good, 0},
		"no value":                      {good + "envoy_h\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := scraped(t, NewScrape(own(), answers(test.text), slog.New(slog.DiscardHandler)))
			if value(got["envoy_a"]) != 3 || got["envoy_h"].Metric[0].Histogram.GetSampleCount() != 2 || value(got["meshgate_agent_envoy_up"]) != 1 {
				t.Errorf("%v", got)
			}
			if d := value(got["meshgate_agent_envoy_scrape_dropped_lines"]); d != test.dropped || value(got["meshgate_agent_envoy_scrape_success"]) != 1 {
				t.Errorf("%v lines dropped, success %v", d, value(got["meshgate_agent_envoy_scrape_success"]))
			}
		})
	}
}

// TestScrapeWithoutEnvoy: the page has the agent's metrics only, and says that Envoy's are
// missing.
func TestScrapeWithoutEnvoy(t *testing.T) {
	endless := func(context.Context) (io.ReadCloser, error) {
		line := "# TYPE envoy_a counter\n" + strings.Repeat("envoy_a 1\n", 1000)
		readers := make([]io.Reader, maxEnvoyPage/len(line)+2)
		for i := range readers {
			readers[i] = strings.NewReader(line)
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
	for name, envoy := range map[string]func(context.Context) (io.ReadCloser, error){
		"away": func(context.Context) (io.ReadCloser, error) { return nil, errors.New("refused") },
		"breaks": func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("# TYPE envoy_a counter\nenvoy_a 1\n"), broken{})), nil
		},
		"too large": endless,
		"long line": answers("# TYPE envoy_a counter\nenvoy_a{x=\"" + strings.Repeat("x", maxLine) + "\"} 1\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got := scraped(t, NewScrape(own(), envoy, slog.New(slog.DiscardHandler)))
			if value(got["meshgate_agent_envoy_up"]) != 1 || value(got["meshgate_agent_envoy_scrape_success"]) != 0 || got["envoy_a"] != nil {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestScrapeLogsOnce: anybody may ask, at any rate, so an Envoy that is away causes one line
// in the log, and its return another.
func TestScrapeLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		away := true
		s := NewScrape(own(), func(context.Context) (io.ReadCloser, error) {
			if away {
				return nil, errors.New("connection refused")
			}
			return io.NopCloser(strings.NewReader("")), nil
		}, slog.New(slog.NewTextHandler(&out, nil)))
		for _, away = range []bool{false, true, true, true, false, false, true} {
			scraped(t, s)
			time.Sleep(pageAge) // virtual time: the next page is a new one
		}
		if left, back := strings.Count(out.String(), "left out of a scrape"), strings.Count(out.String(), "on the page again"); left != 2 || back != 1 {
			t.Errorf("%d lines that it is away, %d that it is back:\n%s", left, back, out.String())
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestScrapeIsBounded: an Envoy that hangs is waited for within the bound, and is asked once
// for a crowd.
func TestScrapeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := NewScrape(own(), func(ctx context.Context) (io.ReadCloser, error) {
			asked++
			<-ctx.Done()
			return nil, ctx.Err()
		}, slog.New(slog.DiscardHandler))
		begun, done := time.Now(), make(chan int, 50)
		for range cap(done) {
			go func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				done <- w.Code
			}()
		}
		for range cap(done) {
			if code := <-done; code != 200 {
				t.Errorf("answered %d", code)
			}
		}
		if took := time.Since(begun); took != envoyTime || asked != 1 {
			t.Errorf("took %s, asked %d times", took, asked)
		}
	})
}

func FuzzPage(f *testing.F) {
	f.Add([]byte("# TYPE a counter\na{x=\"}\"} 1\n# TYPE a counter\na 2\n"))
	f.Add([]byte("# TYPE a_b gauge\na_b_sum 1\n#\n# TYPE\n{} 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := newPage(bytes.NewReader(text), 1<<20, func(string) bool { return false })
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for line := range bytes.Lines(p.text.Bytes()) {
			if name, _, ok := typeOf(bytes.TrimSuffix(line, []byte("\n"))); ok {
				if seen[name] {
					t.Errorf("%s stands twice", name)
				}
				seen[name] = true
			}
		}
	})
}
