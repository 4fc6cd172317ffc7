package timeout

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// DefaultConnect is the limit on connecting if no policy gives one.
const DefaultConnect = 5 * time.Second

// effective completes a configuration, so that edits and explanation agree.
func effective(s *policy.Selection) Conf {
	var c Conf
	if given := policy.First[Spec](s).Conf; given != nil {
		c = *given
	}
	// Envoy refuses a cluster without time to connect.
	if c.ConnectTimeout.Or(0) <= 0 {
		c.ConnectTimeout = mesh.Of(DefaultConnect)
	}
	h := HTTP{}
	if c.HTTP != nil {
		h = *c.HTTP
	}
	if h.RequestTimeout == nil {
		h.RequestTimeout = mesh.Of(0)
	}
	c.HTTP = &h
	return c
}

// streams returns the limits on one stream of a protocol.
func (c Conf) streams(protocol string) (idle, duration *mesh.Duration) {
	idle, duration = c.HTTP.StreamIdleTimeout, c.HTTP.MaxStreamDuration
	if protocol == mesh.ProtocolGRPC && c.GRPC != nil {
		if c.GRPC.StreamIdleTimeout != nil {
			idle = c.GRPC.StreamIdleTimeout
		}
		if c.GRPC.MaxStreamDuration != nil {
			duration = c.GRPC.MaxStreamDuration
		}
	}
	return idle, duration
}

func cluster(d *draft.Cluster, s *policy.Selection) error {
	c := effective(s)
	d.Proto.ConnectTimeout = span(c.ConnectTimeout)
	d.HTTP.CommonHttpProtocolOptions = idleAfter(d.HTTP.GetCommonHttpProtocolOptions(), c.HTTP.IdleTimeout)
	return nil
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	c := effective(s)
	if d.HTTP != nil {
		d.HTTP.CommonHttpProtocolOptions = idleAfter(d.HTTP.GetCommonHttpProtocolOptions(), c.HTTP.IdleTimeout)
		if idle, _ := c.streams(d.Protocol); idle != nil {
			d.HTTP.StreamIdleTimeout = span(idle)
		}
	}
	if d.TCP != nil && c.TCP != nil && c.TCP.IdleTimeout != nil {
		d.TCP.IdleTimeout = span(c.TCP.IdleTimeout)
	}
	return nil
}

func outboundRoutes(r *draft.Routes, s *policy.Selection) error {
	c := effective(s)
	_, duration := c.streams(r.Protocol)
	for a := range r.Actions() {
		a.Timeout = span(c.HTTP.RequestTimeout)
		if duration != nil {
			a.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: span(duration)}
		}
	}
	return nil
}

// idleAfter sets the limit on idle connections, if there is one, and keeps the other options.
func idleAfter(o *corev3.HttpProtocolOptions, d *mesh.Duration) *corev3.HttpProtocolOptions {
	if d == nil {
		return o
	}
	if o == nil {
		o = &corev3.HttpProtocolOptions{}
	}
	o.IdleTimeout = span(d)
	return o
}

func span(d *mesh.Duration) *durationpb.Duration { return durationpb.New(time.Duration(*d)) }
