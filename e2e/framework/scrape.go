package framework

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one page of metrics, by family.
type Metrics map[string]*dto.MetricFamily

// pagePatience bounds the wait for a page that was gathered after it was asked for. A
// page is told again for a second, and an Envoy that hangs makes one take longer.
const pagePatience = 20 * time.Second

// gatheredAt is the line that says when a page was gathered.
var gatheredAt = regexp.MustCompile(`(?m)^meshgate_gathered_timestamp_seconds (\S+)$`)

// Page reads the page of metrics of a port, one that was gathered after this call.
func Page(port int) (*Response, error) {
	begun := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), http.Header{}, "")
		if err != nil || r.Status != http.StatusOK {
			return r, err
		}
		m := gatheredAt.FindStringSubmatch(r.Body)
		if m == nil {
			return r, errors.New("the page does not say when it was gathered")
		}
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil || int64(math.Round(at*1e6)) >= begun.UnixMicro() {
			return r, err
		}
		if time.Since(begun) > pagePatience {
			return r, errors.New("no page was gathered since it was asked for")
		}
		<-tick.C
	}
}

// Scrape reads such a page as Prometheus does. One that is not in order fails the test.
func Scrape(port int) Metrics {
	r, err := Page(port)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	families, err := ParseMetrics(r.Body)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return families
}

// ParseMetrics reads a page of metrics as Prometheus does.
func ParseMetrics(text string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// Sum adds up the series of a family whose labels contain the given pairs of name and
// value; a histogram counts with its number of samples.
func (m Metrics) Sum(family string, labels ...string) (sum float64) {
	f := m[family]
	if f == nil {
		return 0
	}
	for _, series := range f.Metric {
		if !carries(series, labels) {
			continue
		}
		switch {
		case series.Counter != nil:
			sum += series.Counter.GetValue()
		case series.Gauge != nil:
			sum += series.Gauge.GetValue()
		case series.Histogram != nil:
			sum += float64(series.Histogram.GetSampleCount())
		}
	}
	return sum
}

func carries(series *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range series.Label {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
