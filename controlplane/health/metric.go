package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTime bounds the probes of one scrape.
const scrapeTime = 2 * time.Second

// collector shows a board as a metric.
type collector struct {
	board *Board
	desc  *prometheus.Desc
}

// Collector returns the metric meshgate_condition{condition,state}: 1 for the state
// that each condition is in, 0 for the others.
func (b *Board) Collector() prometheus.Collector {
	return &collector{b, prometheus.NewDesc("meshgate_condition",
		"What is in order and what is not, as /ready says it: 1 for the state of each condition, 0 for the others.", []string{"condition", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	for _, condition := range c.board.Conditions(ctx) {
		for _, s := range states {
			value := 0.0
			if s == condition.State {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, condition.Name, string(s))
		}
	}
}
