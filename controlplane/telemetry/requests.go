package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Requests measures HTTP servers. It implements [httpkit.Meter].
type Requests struct {
	took   *prometheus.HistogramVec
	panics *prometheus.CounterVec
}

// NewRequests returns the meter of all servers of a process.
func NewRequests() *Requests {
	return &Requests{
		// The name and the labels of OpenTelemetry's http.server.request.duration.
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_server_request_duration_seconds", Help: "Duration of requests to the APIs and to the data-plane server.", Buckets: requestBuckets,
		}, []string{"server", "http_request_method", "http_route", "http_response_status_code"}),
		panics: counters("panics_recovered_total", "Panics of handlers that were recovered; the log has each.", "server"),
	}
}

// Served implements httpkit.Meter.
func (m *Requests) Served(s httpkit.Served) {
	m.took.WithLabelValues(s.Server, s.Method, s.Pattern, strconv.Itoa(s.Status)).Observe(s.Took.Seconds())
	if panics := m.panics.WithLabelValues(s.Server); s.Panicked { // set from the start, so that an alert sees the first panic
		panics.Inc()
	}
}

// Collectors lists the metrics.
func (m *Requests) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.took, m.panics}
}

// Tokens counts what the OAuth server issues and refuses, and measures revocations and the
// questions of filters. It implements oauth.Observer and revoke.Meter.
type Tokens struct {
	issued, refused *prometheus.CounterVec
	codes           prometheus.Counter
	introspected    *prometheus.HistogramVec
	revoked         *prometheus.HistogramVec
}

// NewTokens returns the meter of a control plane.
func NewTokens() *Tokens {
	return &Tokens{
		issued: counters("oauth_tokens_issued_total", "Access tokens issued, by grant.", "grant"),
		codes: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "oauth_codes_issued_total", Help: "Authorisation codes issued.",
		}),
		refused:      counters("oauth_refusals_total", "Requests to the OAuth endpoints that were refused, by the error that was answered.", "endpoint", "grant", "reason"),
		introspected: histograms("introspection_duration_seconds", "Questions of filters about tokens, from their arrival until the answer was queued.", workBuckets, "result"),
		revoked:      histograms("revocation_duration_seconds", "Revocations, from the commit until no filter answered from the state before; unconfirmed ones were answered with 503.", spreadBuckets, "result"),
	}
}

// Issued implements oauth.Observer.
func (m *Tokens) Issued(grant string) { m.issued.WithLabelValues(grant).Inc() }

// CodeIssued implements oauth.Observer.
func (m *Tokens) CodeIssued() { m.codes.Inc() }

// Refused implements oauth.Observer.
func (m *Tokens) Refused(endpoint, grant, reason string) {
	m.refused.WithLabelValues(endpoint, grant, reason).Inc()
}

// Introspected implements revoke.Meter.
func (m *Tokens) Introspected(result string, took time.Duration) {
	m.introspected.WithLabelValues(result).Observe(took.Seconds())
}

// Revoked implements revoke.Meter.
func (m *Tokens) Revoked(took time.Duration, confirmed bool) {
	result := "unconfirmed"
	if confirmed {
		result = "confirmed"
	}
	m.revoked.WithLabelValues(result).Observe(took.Seconds())
}

// Collectors lists the metrics.
func (m *Tokens) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.issued, m.codes, m.refused, m.introspected, m.revoked}
}
