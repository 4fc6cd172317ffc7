package healthcheck

import (
	"encoding/hex"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// effective completes a configuration, so that edits and explanation agree. A service without
// traffic is checked as often as others. With Envoy's default of one minute, the first callers
// could meet failing endpoints for that long.
func effective(s *policy.Selection) Conf {
	var c Conf
	if given := policy.First[Spec](s).Conf; given != nil {
		c = *given
	}
	if c.NoTrafficInterval == nil {
		c.NoTrafficInterval = c.Interval
	}
	if c.ReuseConnection == nil {
		c.ReuseConnection = new(true)
	}
	if c.HTTP != nil && len(c.HTTP.ExpectedStatuses) == 0 {
		h := *c.HTTP
		h.ExpectedStatuses = []uint32{200}
		c.HTTP = &h
	}
	return c
}

func cluster(d *draft.Cluster, s *policy.Selection) error {
	c := effective(s)
	check := &corev3.HealthCheck{
		Interval: span(c.Interval), Timeout: span(c.Timeout),
		UnhealthyThreshold: wrapperspb.UInt32(c.UnhealthyThreshold), HealthyThreshold: wrapperspb.UInt32(c.HealthyThreshold),
		InitialJitter: span(c.InitialJitter), IntervalJitter: span(c.IntervalJitter), IntervalJitterPercent: c.IntervalJitterPercent,
		NoTrafficInterval: span(c.NoTrafficInterval), ReuseConnection: wrapperspb.Bool(*c.ReuseConnection),
		AlwaysLogHealthCheckFailures: c.AlwaysLogHealthCheckFailures != nil && *c.AlwaysLogHealthCheckFailures,
	}
	if c.HTTP != nil {
		check.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: request(c.HTTP, d)}
	} else {
		check.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: exchange(c.TCP)}
	}
	d.Proto.HealthChecks = []*corev3.HealthCheck{check}
	panics(d.Proto, &c)
	return nil
}

// panics configures what happens when few endpoints are healthy.
func panics(d *clusterv3.Cluster, c *Conf) {
	if c.HealthyPanicThreshold == nil && c.FailTrafficOnPanic == nil {
		return
	}
	if d.CommonLbConfig == nil {
		d.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{}
	}
	if p := c.HealthyPanicThreshold; p != nil {
		d.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: *p}
	}
	if f := c.FailTrafficOnPanic; f != nil {
		d.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
			ZoneAwareLbConfig: &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{FailTrafficOnPanic: *f},
		}
	}
}

// request returns the HTTP check. It is sent through the inbound of the other proxy, like
// ordinary requests. The host is the service, because a server may not accept the name of a
// cluster.
func request(h *HTTP, d *draft.Cluster) *corev3.HealthCheck_HttpHealthCheck {
	out := &corev3.HealthCheck_HttpHealthCheck{Path: h.Path, Host: d.Service}
	if (d.Protocol == mesh.ProtocolHTTP2 || d.Protocol == mesh.ProtocolGRPC) && !h.UseHTTP1 {
		out.CodecClientType = typev3.CodecClientType_HTTP2
	}
	for _, status := range h.ExpectedStatuses {
		out.ExpectedStatuses = append(out.ExpectedStatuses, &typev3.Int64Range{Start: int64(status), End: int64(status) + 1})
	}
	for _, add := range h.RequestHeadersToAdd {
		header := &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: add.Header.Key, Value: draft.Literal(add.Header.Value)},
			AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
		}
		if add.Append != nil && !*add.Append {
			header.AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		}
		out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, header)
	}
	return out
}

func exchange(t *TCP) *corev3.HealthCheck_TcpHealthCheck {
	out := &corev3.HealthCheck_TcpHealthCheck{}
	if t == nil {
		return out
	}
	if len(t.Send) > 0 {
		out.Send = payload(t.Send)
	}
	for _, r := range t.Receive {
		if len(r) > 0 {
			out.Receive = append(out.Receive, payload(r))
		}
	}
	return out
}

func payload(b []byte) *corev3.HealthCheck_Payload {
	return &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: hex.EncodeToString(b)}}
}

func span(d *mesh.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(time.Duration(*d))
}
