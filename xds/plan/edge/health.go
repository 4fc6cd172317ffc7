package edge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	matchv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

const (
	// never is a threshold that no target reaches.
	never = math.MaxUint32
	// ejection is how long a target that failed gets no requests the first time. Each further
	// time in a row is longer by that much, up to longestEjection.
	ejection        = 30 * time.Second
	longestEjection = 300 * time.Second
	// sweep is how often Envoy looks for ejections that are over.
	sweep = time.Second
	// longestProbe is the maximum time for a probe. Envoy does not confirm a cluster before
	// each of its targets was probed once, so a slow target keeps a gateway from new
	// configuration for as long.
	longestProbe = time.Minute
	// probeSocket marks the transport socket of probes.
	probeSocket = "probe"
)

// probesTLS reports whether probes of an upstream use TLS.
func probesTLS(u *view.Upstream) bool {
	if u == nil || !probes(u.Spec) {
		return false
	}
	t := u.Spec.Healthchecks.Active.Type
	return t == gateway.CheckHTTPS || t == gateway.CheckGRPCS
}

func probes(u *gateway.Upstream) bool {
	a := u.Healthchecks.Active
	return a.Healthy.Interval > 0 || a.Unhealthy.Interval > 0
}

// watch adds the health checks of an upstream to a cluster. It returns which answers count as
// errors, or nil if none does.
func watch(c *clusterv3.Cluster, k clusterKey) (*httpv3.HttpProtocolOptions_OutlierDetection, error) {
	u := k.upstream.Spec
	if probes(u) {
		check, err := activeCheck(k)
		if err != nil {
			return nil, err
		}
		c.HealthChecks = []*corev3.HealthCheck{check}
		if err := probeSockets(c, k); err != nil {
			return nil, err
		}
	}
	return passiveCheck(c, u.Healthchecks.Passive), nil
}

// activeCheck returns the probes of targets. Envoy probes in every state, so an interval of 0
// for one state is replaced with the interval of the other.
func activeCheck(k clusterKey) (*corev3.HealthCheck, error) {
	a := k.upstream.Spec.Healthchecks.Active
	healthy, unhealthy := a.Healthy.Interval, a.Unhealthy.Interval
	if healthy == 0 {
		healthy = unhealthy
	}
	if unhealthy == 0 {
		unhealthy = healthy
	}
	check := &corev3.HealthCheck{
		Timeout: seconds(min(a.Timeout, longestProbe.Seconds())), Interval: seconds(healthy), UnhealthyInterval: seconds(unhealthy),
		UnhealthyEdgeInterval: seconds(healthy), HealthyEdgeInterval: seconds(unhealthy),
		// By default Envoy probes an idle cluster only once a minute.
		NoTrafficInterval: seconds(healthy), NoTrafficHealthyInterval: seconds(healthy),
		HealthyThreshold:   threshold(a.Healthy.Successes),
		UnhealthyThreshold: threshold(a.Unhealthy.HTTPFailures, a.Unhealthy.TCPFailures, a.Unhealthy.Timeouts),
	}
	switch a.Type {
	case gateway.CheckTCP:
		check.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}
	case gateway.CheckGRPC, gateway.CheckGRPCS:
		if !http2(k.protocol) {
			return nil, fmt.Errorf("probes of type %s need a service of protocol grpc or grpcs", a.Type)
		}
		check.HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{Authority: probeHost(k)}}
	default:
		check.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
			Host: probeHost(k), Path: a.HTTPPath, RequestHeadersToAdd: probeHeaders(a.Headers),
			ExpectedStatuses:  expected(a),
			RetriableStatuses: []*typev3.Int64Range{{Start: 100, End: 600}},
		}}
	}
	return check, nil
}

func probeHost(k clusterKey) string {
	if h := k.upstream.Spec.HostHeader; h != "" {
		return h
	}
	return k.upstream.Spec.Name
}

func probeHeaders(headers map[string][]string) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, v := range headers[name] {
			h := overwrite(strings.ToLower(name), plan.Literal(v))
			h.AppendAction = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			out = append(out, h)
		}
	}
	return out
}

// expected returns the statuses that count as success. Envoy has no neutral answer, so a
// status in neither list counts as success: a target is not ejected for an answer that nobody
// configured as a failure.
func expected(a gateway.ActiveCheck) []*typev3.Int64Range {
	bad := map[int]bool{}
	if a.Unhealthy.HTTPFailures > 0 {
		for _, s := range a.Unhealthy.HTTPStatuses {
			bad[s] = true
		}
		for _, s := range a.Healthy.HTTPStatuses {
			delete(bad, s)
		}
	}
	var out []*typev3.Int64Range
	for s := 100; s < 600; s++ {
		switch {
		case bad[s]:
		case len(out) > 0 && out[len(out)-1].End == int64(s):
			out[len(out)-1].End++
		default:
			out = append(out, &typev3.Int64Range{Start: int64(s), End: int64(s) + 1})
		}
	}
	return out
}

// threshold returns the smallest of some numbers of events; 0 means never.
func threshold(counts ...int) *wrapperspb.UInt32Value {
	least := uint32(never)
	for _, n := range counts {
		if n > 0 {
			least = min(least, uint32(n)) //nolint:gosec // positive
		}
	}
	return wrapperspb.UInt32(least)
}

func seconds(s float64) *durationpb.Duration {
	return durationpb.New(time.Duration(s * float64(time.Second)))
}

// probeSockets makes probes use TLS or not according to the type of the check, whatever the
// service uses.
func probeSockets(c *clusterv3.Cluster, k clusterKey) error {
	if probesAsAsked(k) {
		return nil
	}
	if !probesTLS(k.upstream) {
		return plainProbes(c)
	}
	a := k.upstream.Spec.Healthchecks.Active
	server := k.tls
	server.verify = a.HTTPSVerifyCertificate
	if a.HTTPSSNI != "" {
		server.name = strings.ToLower(a.HTTPSSNI)
	}
	socket, err := upstreamTLS(server, alpn(a.Type == gateway.CheckGRPCS))
	if err != nil {
		return err
	}
	return probeBy(c, transportSocket(socket))
}

func plainProbes(c *clusterv3.Cluster) error {
	raw, err := plan.Pack(&rawv3.RawBuffer{})
	if err != nil {
		return err
	}
	return probeBy(c, &corev3.TransportSocket{
		Name: "envoy.transport_sockets.raw_buffer", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: raw},
	})
}

// probeBy makes the probes of a cluster, and nothing else, use a transport socket.
func probeBy(c *clusterv3.Cluster, socket *corev3.TransportSocket) error {
	criteria, err := structpb.NewStruct(map[string]any{probeSocket: true})
	if err != nil {
		return err
	}
	c.TransportSocketMatches = append(c.TransportSocketMatches,
		&clusterv3.Cluster_TransportSocketMatch{Name: probeSocket, Match: criteria, TransportSocket: socket})
	for _, check := range c.HealthChecks {
		check.TransportSocketMatchCriteria = criteria
	}
	return nil
}

// passiveCheck judges targets by their answers. An ejected target gets no requests for a time,
// or until a probe succeeds.
func passiveCheck(c *clusterv3.Cluster, p gateway.PassiveCheck) *httpv3.HttpProtocolOptions_OutlierDetection {
	answers, connections := p.Unhealthy.HTTPFailures, threshold(p.Unhealthy.TCPFailures, p.Unhealthy.Timeouts)
	if p.Type == gateway.CheckTCP || len(p.Unhealthy.HTTPStatuses) == 0 {
		answers = 0
	}
	if answers == 0 && connections.Value == never {
		return nil
	}
	c.OutlierDetection = &clusterv3.OutlierDetection{
		Interval: durationpb.New(sweep), BaseEjectionTime: durationpb.New(ejection), MaxEjectionTime: durationpb.New(longestEjection),
		MaxEjectionPercent: wrapperspb.UInt32(100), SplitExternalLocalOriginErrors: true,
		Consecutive_5Xx: threshold(answers), EnforcingConsecutive_5Xx: enforced(answers > 0),
		ConsecutiveLocalOriginFailure: connections, EnforcingConsecutiveLocalOriginFailure: enforced(connections.Value != never),
		EnforcingSuccessRate: enforced(false), EnforcingLocalOriginSuccessRate: enforced(false),
	}
	if answers == 0 {
		return nil
	}
	texts := make([]string, len(p.Unhealthy.HTTPStatuses))
	for i, s := range p.Unhealthy.HTTPStatuses {
		texts[i] = fmt.Sprint(s)
	}
	slices.Sort(texts)
	return &httpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: &matchv3.MatchPredicate{Rule: &matchv3.MatchPredicate_HttpResponseHeadersMatch{
		HttpResponseHeadersMatch: &matchv3.HttpHeadersMatch{Headers: []*routev3.HeaderMatcher{{
			Name: ":status", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: strings.Join(slices.Compact(texts), "|")}},
			}},
		}}},
	}}}
}

func enforced(yes bool) *wrapperspb.UInt32Value {
	if yes {
		return wrapperspb.UInt32(100)
	}
	return wrapperspb.UInt32(0)
}
