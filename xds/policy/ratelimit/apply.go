package ratelimit

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	localratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// filter is the name of the filter, and of what routes say to it.
const filter = "envoy.filters.http.local_ratelimit"

// statPrefix begins the names of the filter's counters.
const statPrefix = "rate_limit"

// inbound adds a filter that limits nothing by itself. The limits come with the routes. So a
// change of limits applies to open connections, and drains none.
func inbound(d *draft.Inbound, s *policy.Selection) error {
	if d.HTTP == nil || len(limits(s)) == 0 {
		return nil
	}
	return put(&d.Filters)
}

func put(into *draft.Slots) error {
	f, err := draft.HTTPFilter(filter, &localratelimitv3.LocalRateLimit{StatPrefix: statPrefix})
	if err != nil {
		return err
	}
	return into.Put(draft.SlotRateLimit, f)
}

// outbound does what inbound does, in the proxy of a caller.
func outbound(d *draft.Outbound, s *policy.Selection) error {
	if d.HTTP == nil || called(s) == nil {
		return nil
	}
	return put(&d.Filters)
}

// prepare adds the filter to the listeners of gateways, whose routes say what is limited.
func prepare(d *draft.Outbound) error { return put(&d.Filters) }

// limitOutbound says the limit of all routes at once: Envoy has one bucket for each place where a
// limit is said.
func limitOutbound(r *draft.Routes, s *policy.Selection) error {
	limit := called(s)
	if limit == nil {
		return nil
	}
	return r.Configure(filter, limit.bucket())
}

// called returns the limit of an outbound, nil for none.
func called(s *policy.Selection) *HTTP {
	if spec := policy.First[Spec](s); spec != nil && spec.Conf != nil {
		return spec.Conf.HTTP
	}
	return nil
}

func limitCallers(r *draft.Routes, s *policy.Selection) error {
	for _, l := range limits(s) {
		config, err := draft.Pack(l.bucket())
		if err != nil {
			return err
		}
		err = r.ForSources([]mesh.Selector{l.source}, func(route *routev3.Route) {
			if route.TypedPerFilterConfig == nil {
				route.TypedPerFilterConfig = map[string]*anypb.Any{}
			}
			route.TypedPerFilterConfig[filter] = config
		})
		if err != nil {
			return err
		}
		if everybody(l.source) { // nobody is left for another one
			break
		}
	}
	return nil
}

func everybody(source mesh.Selector) bool {
	callers := draft.FromSources([]mesh.Selector{source})
	return len(callers) == 1 && callers[0] == nil
}

// limit is the limit of one source.
type limit struct {
	source mesh.Selector
	*HTTP
}

// limits lists the limits of all policies, the most specific source first. The order of equal
// ones is that of their policies, and of the sources in one policy.
func limits(s *policy.Selection) (out []limit) {
	for _, p := range s.Policies {
		spec, ok := p.Spec.(*Spec)
		if !ok || spec.Conf == nil || spec.Conf.HTTP == nil {
			continue
		}
		for _, source := range spec.Sources {
			out = append(out, limit{source, spec.Conf.HTTP})
		}
	}
	slices.SortStableFunc(out, func(a, b limit) int { return mesh.RankOf(b.source.Match).Compare(mesh.RankOf(a.source.Match)) })
	return out
}

// bucket is the limit as Envoy has it.
func (h *HTTP) bucket() *localratelimitv3.LocalRateLimit {
	all := &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{Numerator: 100}}
	out := &localratelimitv3.LocalRateLimit{
		StatPrefix: statPrefix,
		TokenBucket: &typev3.TokenBucket{
			MaxTokens: h.Requests, TokensPerFill: wrapperspb.UInt32(h.Requests),
			FillInterval: durationpb.New(h.Interval.Or(0)),
		},
		FilterEnabled: all, FilterEnforced: all,
		// Calls of gRPC are told that there were too many, and not that the server is away.
		RateLimitedAsResourceExhausted: true,
	}
	if on := h.OnRateLimit; on != nil {
		if on.Status != nil {
			out.Status = &typev3.HttpStatus{Code: code(*on.Status)}
		}
		for _, header := range on.Headers {
			out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, header.option())
		}
	}
	return out
}

func (h Header) option() *corev3.HeaderValueOption {
	action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	if h.Append {
		action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
	return &corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{Key: h.Key, Value: draft.Literal(h.Value)}, AppendAction: action,
	}
}
