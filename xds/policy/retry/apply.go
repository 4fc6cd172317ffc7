package retry

import (
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// These, and the lists below, are conditions in the spelling of the API.
const (
	onStatusCodes = "retriable_status_codes"
	onHeaders     = "retriable_headers"
	onHTTP3       = "http3_post_connect_failure"
)

var (
	httpConditions = []string{"gateway_error", "connect_failure", "refused_stream"}
	grpcConditions = []string{"cancelled", "connect_failure", "gateway_error", "refused_stream", "reset", "resource_exhausted", "unavailable"}
)

// hostAttempts is how often a retry looks for an endpoint that has not failed the request yet.
const hostAttempts = 5

// effective completes a configuration, so that edits and explanation agree.
func effective(s *policy.Selection) Conf {
	var c Conf
	if given := policy.First[Spec](s).Conf; given != nil {
		c = *given
	}
	if c.HTTP != nil {
		h := *c.HTTP
		if len(h.RetryOn) == 0 {
			h.RetryOn = httpConditions
		}
		if len(h.RetriableStatusCodes) > 0 && !slices.Contains(h.RetryOn, onStatusCodes) {
			h.RetryOn = append(slices.Clone(h.RetryOn), onStatusCodes)
		}
		if len(h.RetriableHeaders) > 0 && !slices.Contains(h.RetryOn, onHeaders) {
			h.RetryOn = append(slices.Clone(h.RetryOn), onHeaders)
		}
		h.BackOff = rising(h.BackOff)
		c.HTTP = &h
	}
	if c.GRPC != nil {
		g := *c.GRPC
		if len(g.RetryOn) == 0 {
			g.RetryOn = grpcConditions
		}
		g.BackOff = rising(g.BackOff)
		c.GRPC = &g
	}
	return c
}

// rising ensures that the longest back-off is not shorter than the first one. Envoy would
// refuse the route table.
func rising(b *BackOff) *BackOff {
	if b == nil || b.BaseInterval == nil || b.MaxInterval == nil || *b.MaxInterval >= *b.BaseInterval {
		return b
	}
	return &BackOff{BaseInterval: b.BaseInterval, MaxInterval: b.BaseInterval}
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	if c := effective(s); d.TCP != nil && c.TCP != nil {
		d.TCP.MaxConnectAttempts = wrapperspb.UInt32(c.TCP.MaxConnectAttempts)
	}
	return nil
}

func outboundRoutes(r *draft.Routes, s *policy.Selection) error {
	c := effective(s)
	var p *routev3.RetryPolicy
	switch {
	case r.Protocol == mesh.ProtocolGRPC && c.GRPC != nil:
		g := c.GRPC
		p = tries(g.NumRetries, g.PerTryTimeout, g.BackOff)
		p.RetryOn = conditions(g.RetryOn)
	case r.Protocol != mesh.ProtocolGRPC && c.HTTP != nil:
		h := c.HTTP
		p = tries(h.NumRetries, h.PerTryTimeout, h.BackOff)
		p.RetryOn = conditions(h.RetryOn)
		p.RetriableStatusCodes = slices.Clone(h.RetriableStatusCodes)
		p.RetriableRequestHeaders = methods(h.RetriableMethods)
		for _, name := range h.RetriableHeaders {
			p.RetriableHeaders = append(p.RetriableHeaders, &routev3.HeaderMatcher{
				Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
			})
		}
	default:
		return nil
	}
	elsewhere, err := draft.Pack(&previoushostsv3.PreviousHostsPredicate{})
	if err != nil {
		return err
	}
	p.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
		Name:       "envoy.retry_host_predicates.previous_hosts",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: elsewhere},
	}}
	p.HostSelectionRetryMaxAttempts = hostAttempts
	r.Host.RetryPolicy = p
	return nil
}

func tries(n *uint32, perTry *mesh.Duration, b *BackOff) *routev3.RetryPolicy {
	p := &routev3.RetryPolicy{}
	if n != nil {
		p.NumRetries = wrapperspb.UInt32(*n)
	}
	if perTry != nil {
		p.PerTryTimeout = span(*perTry)
	}
	if b != nil && b.BaseInterval != nil {
		p.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: span(*b.BaseInterval)}
		if b.MaxInterval != nil {
			p.RetryBackOff.MaxInterval = span(*b.MaxInterval)
		}
	}
	return p
}

// conditions converts names of the API into Envoy's.
func conditions(on []string) string {
	out := make([]string, len(on))
	for i, c := range on {
		out[i] = strings.ReplaceAll(strings.TrimPrefix(c, "all_"), "_", "-")
	}
	return strings.Join(out, ",")
}

func methods(names []string) []*routev3.HeaderMatcher {
	out := make([]*routev3.HeaderMatcher, len(names))
	for i, m := range names {
		out[i] = &routev3.HeaderMatcher{Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: m}},
		}}
	}
	return out
}

func span(d mesh.Duration) *durationpb.Duration { return durationpb.New(time.Duration(d)) }
