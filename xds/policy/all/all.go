// Package all lists the policies. A new policy needs its folder and a line here.
package all

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/healthcheck"
	"github.com/meshgate/meshgate/xds/policy/meshaccesslog"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/meshtrace"
	"github.com/meshgate/meshgate/xds/policy/meshtrafficpermission"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficlog"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/policy/traffictrace"
)

// Policies lists the policies, ordered by the type of their resources. The caller may change
// the slice.
func Policies() []*policy.Policy {
	return []*policy.Policy{
		circuitbreaker.Policy,
		faultinjection.Policy,
		healthcheck.Policy,
		meshaccesslog.Policy,
		meshtokenauth.Policy,
		meshtrace.Policy,
		meshtrafficpermission.Policy,
		proxytemplate.Policy,
		ratelimit.Policy,
		retry.Policy,
		timeout.Policy,
		trafficlog.Policy,
		trafficpermission.Policy,
		trafficroute.Policy,
		traffictrace.Policy,
	}
}

// Kinds lists the kinds of the policies, in the same order.
func Kinds() []*model.Kind {
	ps := Policies()
	out := make([]*model.Kind, len(ps))
	for i, p := range ps {
		out[i] = p.Kind
	}
	return out
}

// Default is a policy that every new mesh gets.
type Default struct {
	Kind *model.Kind
	// Prefix is the beginning of the resource's name; the name of the mesh follows.
	Prefix string
	// Spec makes a new spec for the caller.
	Spec func() any
}

// Defaults lists the policies that a new mesh gets. With them everybody may call everybody
// (requirement "Default resources").
func Defaults() []Default {
	return []Default{
		{trafficpermission.Kind, "allow-all-", func() any { return &trafficpermission.Spec{Connection: everything()} }},
		{trafficroute.Kind, "route-all-", func() any { return &trafficroute.Spec{Connection: everything(), Conf: route()} }},
		{timeout.Kind, "timeout-all-", func() any { return &timeout.Spec{Connection: everything(), Conf: limits()} }},
		{circuitbreaker.Kind, "circuit-breaker-all-", func() any { return &circuitbreaker.Spec{Connection: everything(), Conf: breaker()} }},
		{retry.Kind, "retry-all-", func() any { return &retry.Spec{Connection: everything(), Conf: retries()} }},
	}
}

func everything() mesh.Connection {
	services := func() []mesh.Selector {
		return []mesh.Selector{{Match: mesh.Tags{mesh.TagService: mesh.AnyValue}}}
	}
	return mesh.Connection{Sources: services(), Destinations: services()}
}

func route() *trafficroute.Conf {
	return &trafficroute.Conf{
		Destination:  mesh.Tags{mesh.TagService: mesh.AnyValue},
		LoadBalancer: &trafficroute.LoadBalancer{RoundRobin: &struct{}{}},
	}
}

func limits() *timeout.Conf {
	return &timeout.Conf{
		ConnectTimeout: mesh.Of(5 * time.Second),
		TCP:            &timeout.TCP{IdleTimeout: mesh.Of(time.Hour)},
		HTTP: &timeout.HTTP{
			RequestTimeout: mesh.Of(15 * time.Second), IdleTimeout: mesh.Of(time.Hour),
			StreamIdleTimeout: mesh.Of(30 * time.Minute),
		},
	}
}

func breaker() *circuitbreaker.Conf {
	return &circuitbreaker.Conf{Thresholds: &circuitbreaker.Thresholds{
		MaxConnections: new(uint32(1024)), MaxPendingRequests: new(uint32(1024)),
		MaxRetries: new(uint32(3)), MaxRequests: new(uint32(1024)),
	}}
}

func retries() *retry.Conf {
	backOff := func() *retry.BackOff {
		return &retry.BackOff{BaseInterval: mesh.Of(25 * time.Millisecond), MaxInterval: mesh.Of(250 * time.Millisecond)}
	}
	return &retry.Conf{
		HTTP: &retry.HTTP{NumRetries: new(uint32(5)), PerTryTimeout: mesh.Of(16 * time.Second), BackOff: backOff()},
		GRPC: &retry.GRPC{NumRetries: new(uint32(5)), PerTryTimeout: mesh.Of(16 * time.Second), BackOff: backOff()},
		TCP:  &retry.TCP{MaxConnectAttempts: 5},
	}
}
