package circuitbreaker

import (
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// effective omits durations that Envoy would refuse because they are not positive, so that
// edits and explanation agree.
func effective(s *policy.Selection) *Conf {
	var c Conf
	if given := policy.First[Spec](s).Conf; given != nil {
		c = *given
	}
	if c.Interval.Or(0) <= 0 {
		c.Interval = nil
	}
	if c.BaseEjectionTime.Or(0) <= 0 {
		c.BaseEjectionTime = nil
	}
	return &c
}

func cluster(d *draft.Cluster, s *policy.Selection) error {
	c := effective(s)
	if c.limits() {
		t := c.Thresholds
		d.Proto.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			Priority:       corev3.RoutingPriority_DEFAULT,
			MaxConnections: number(t.MaxConnections), MaxPendingRequests: number(t.MaxPendingRequests),
			MaxRetries: number(t.MaxRetries), MaxRequests: number(t.MaxRequests),
		}}}
	}
	if c.detects() {
		d.Proto.OutlierDetection = outliers(c)
	}
	return nil
}

// outliers enables or disables every detector explicitly, because Envoy enables detectors that
// are not mentioned.
func outliers(c *Conf) *clusterv3.OutlierDetection {
	d := c.Detectors
	o := &clusterv3.OutlierDetection{
		Interval: span(c.Interval), BaseEjectionTime: span(c.BaseEjectionTime),
		MaxEjectionPercent:             number(c.MaxEjectionPercent),
		AlwaysEjectOneHost:             oneAtLeast(c.MaxEjectionPercent),
		SplitExternalLocalOriginErrors: c.SplitExternalAndLocalErrors,

		EnforcingConsecutive_5Xx:               enforced(d.TotalErrors != nil),
		EnforcingConsecutiveGatewayFailure:     enforced(d.GatewayErrors != nil),
		EnforcingConsecutiveLocalOriginFailure: enforced(d.LocalErrors != nil),
		EnforcingSuccessRate:                   enforced(d.StandardDeviation != nil),
		EnforcingLocalOriginSuccessRate:        enforced(d.StandardDeviation != nil),
		EnforcingFailurePercentage:             enforced(d.Failure != nil),
		EnforcingFailurePercentageLocalOrigin:  enforced(d.Failure != nil),
	}
	if e := d.TotalErrors; e != nil {
		o.Consecutive_5Xx = number(e.Consecutive)
	}
	if e := d.GatewayErrors; e != nil {
		o.ConsecutiveGatewayFailure = number(e.Consecutive)
	}
	if e := d.LocalErrors; e != nil {
		o.ConsecutiveLocalOriginFailure = number(e.Consecutive)
	}
	if e := d.StandardDeviation; e != nil {
		o.SuccessRateRequestVolume, o.SuccessRateMinimumHosts = number(e.RequestVolume), number(e.MinimumHosts)
		o.SuccessRateStdevFactor = thousandths(e.Factor)
	}
	if e := d.Failure; e != nil {
		o.FailurePercentageRequestVolume, o.FailurePercentageMinimumHosts = number(e.RequestVolume), number(e.MinimumHosts)
		o.FailurePercentageThreshold = number(e.Threshold)
	}
	return o
}

// oneAtLeast lets a service of few endpoints lose one of them, of which a percentage would leave
// less than a whole one. Who allows no percentage at all wants none ejected.
func oneAtLeast(percent *uint32) *wrapperspb.BoolValue {
	return wrapperspb.Bool(percent == nil || *percent > 0)
}

// enforced returns a percentage: always or never.
func enforced(on bool) *wrapperspb.UInt32Value {
	if on {
		return wrapperspb.UInt32(100)
	}
	return wrapperspb.UInt32(0)
}

func number(n *uint32) *wrapperspb.UInt32Value {
	if n == nil {
		return nil
	}
	return wrapperspb.UInt32(*n)
}

// thousandths returns a factor as Envoy writes it: 1900 for 1.9.
func thousandths(f *float64) *wrapperspb.UInt32Value {
	if f == nil {
		return nil
	}
	return wrapperspb.UInt32(uint32(min(max(math.Round(*f*1000), 0), math.MaxUint32)))
}

func span(d *mesh.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(time.Duration(*d))
}
