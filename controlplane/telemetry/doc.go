// Package telemetry holds the metrics of the control plane and the agent, in the form that
// Prometheus reads. The measured packages know nothing about Prometheus. They declare small
// interfaces (httpkit.Meter, oauth.Observer, revoke.Meter, the ADS server's Observer), which
// this package implements. There are further collectors of conditions (controlplane/health)
// and, in the binary, of values that are read from several parts.
//
// Names follow the conventions of Prometheus: base units, _total for counters, a suffix for
// the unit. The name of requests follows OpenTelemetry's semantic conventions. Labels have
// few values, all of them chosen by this program: no client, no token and no name of a
// resource ever becomes one. docs/operations/metrics.md lists every family, and a test
// compares the list with what is registered.
package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "meshgate"

// Buckets in seconds.
var (
	// requestBuckets are the buckets that OpenTelemetry recommends for HTTP.
	requestBuckets = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	// workBuckets are for work that usually takes far less than a millisecond.
	workBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	// spreadBuckets are for changes that must reach proxies.
	spreadBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// Gauge returns a gauge of this product that is read when it is scraped.
func Gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
}

// Counter returns a counter of this product that is read when it is scraped.
func Counter(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value)
}

// Flag returns 1 for true and 0 for false.
func Flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// BuildInfo returns a gauge that says what runs and is always 1. The component is
// control-plane or agent.
func BuildInfo(component, version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "What runs; always 1.",
		ConstLabels: prometheus.Labels{"component": component, "version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
