// Package circuitbreaker is the policy that limits concurrent requests to a service and avoids
// failing endpoints (requirement "CircuitBreaker").
package circuitbreaker

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec is a circuit breaker.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf contains detectors of failing endpoints and thresholds for the whole cluster.
type Conf struct {
	// Interval is the time between two checks of the endpoints.
	Interval *mesh.Duration `json:"interval,omitempty"`
	// BaseEjectionTime is how long an endpoint is ejected the first time.
	BaseEjectionTime *mesh.Duration `json:"baseEjectionTime,omitempty"`
	// MaxEjectionPercent is the percentage of endpoints that may be ejected at once, 10 if it is
	// absent. One endpoint may be ejected in any case, unless it is 0.
	MaxEjectionPercent *uint32 `json:"maxEjectionPercent,omitempty"`
	// SplitExternalAndLocalErrors counts network errors separately from error responses.
	SplitExternalAndLocalErrors bool        `json:"splitExternalAndLocalErrors,omitempty"`
	Detectors                   *Detectors  `json:"detectors,omitempty"`
	Thresholds                  *Thresholds `json:"thresholds,omitempty"`
}

// Detectors say when an endpoint fails. An absent detector is off. An empty one uses Envoy's
// default numbers.
type Detectors struct {
	// TotalErrors counts consecutive responses with 5xx, GatewayErrors those with 502, 503 and
	// 504, LocalErrors network failures.
	TotalErrors   *Errors `json:"totalErrors,omitempty"`
	GatewayErrors *Errors `json:"gatewayErrors,omitempty"`
	LocalErrors   *Errors `json:"localErrors,omitempty"`
	// StandardDeviation compares an endpoint's success rate with that of the others.
	StandardDeviation *StandardDeviation `json:"standardDeviation,omitempty"`
	// Failure compares an endpoint's failures with a fixed percentage.
	Failure *Failure `json:"failure,omitempty"`
}

// Errors is a number of consecutive errors.
type Errors struct {
	Consecutive *uint32 `json:"consecutive,omitempty"`
}

// StandardDeviation says how far below the mean an endpoint may be.
type StandardDeviation struct {
	RequestVolume *uint32  `json:"requestVolume,omitempty"`
	MinimumHosts  *uint32  `json:"minimumHosts,omitempty"`
	Factor        *float64 `json:"factor,omitempty"`
}

// Failure says what percentage of an endpoint's requests may fail.
type Failure struct {
	RequestVolume *uint32 `json:"requestVolume,omitempty"`
	MinimumHosts  *uint32 `json:"minimumHosts,omitempty"`
	Threshold     *uint32 `json:"threshold,omitempty"`
}

// Thresholds limit what one proxy may have in progress at a time. An absent threshold has
// Envoy's default: 1024, or 3 for retries.
type Thresholds struct {
	MaxConnections     *uint32 `json:"maxConnections,omitempty"`
	MaxPendingRequests *uint32 `json:"maxPendingRequests,omitempty"`
	MaxRetries         *uint32 `json:"maxRetries,omitempty"`
	MaxRequests        *uint32 `json:"maxRequests,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "circuit_breaker", Path: "circuit-breakers", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "CircuitBreaker", Singular: "Circuit Breaker", Plural: "Circuit Breakers",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits the clusters of destinations.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByDestination, Gateway: true,
	Edits:   policy.Edits{Cluster: cluster},
	Explain: explain,
	Idle:    idle,
}

// minInterval is the least time between two checks of the endpoints, which Envoy's main thread
// makes for every cluster.
const minInterval = 10 * time.Millisecond

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := policy.Violations(append(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations)...))
	var c Conf
	if s.Conf != nil {
		c = *s.Conf
	}
	if !c.detects() && !c.limits() {
		v.Add("conf", "must have at least one of the detector or threshold configured")
		return v
	}
	if c.Detectors != nil && !c.detects() {
		v.Add("conf.detectors", "can't be empty")
	}
	if d := c.Interval.Or(0); d > 0 && d < minInterval {
		v.Add("conf.interval", "must not be shorter than 10ms")
	}
	v.Whole("conf.baseEjectionTime", c.BaseEjectionTime)
	v.Percent("conf.maxEjectionPercent", c.MaxEjectionPercent)
	if c.detects() && c.Detectors.Failure != nil {
		threshold := c.Detectors.Failure.Threshold
		v.Percent("conf.detectors.failure.threshold", threshold)
		if threshold != nil && *threshold == 0 { // every endpoint would fail
			v.Add("conf.detectors.failure.threshold", policy.TextPositiveIf)
		}
	}
	if c.Thresholds != nil && !c.limits() {
		v.Add("conf.thresholds", "can't be empty")
	}
	return v
}

// detects reports whether there is a detector.
func (c *Conf) detects() bool { return c.Detectors != nil && *c.Detectors != (Detectors{}) }

// limits reports whether there is a threshold.
func (c *Conf) limits() bool { return c.Thresholds != nil && *c.Thresholds != (Thresholds{}) }
