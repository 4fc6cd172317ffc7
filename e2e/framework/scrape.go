package framework

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one page of metrics, by family.
type Metrics map[string]*dto.MetricFamily

// Scrape reads the page of metrics of a port as Prometheus does. A page that is not
// in order fails the test.
func Scrape(port int) Metrics {
	r, err := Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), http.Header{}, "")
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
