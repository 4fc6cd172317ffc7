package accesslog

import (
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
)

// million is the unit of shares.
const million = 1_000_000

// filter accepts the requests of an ending. Refused requests are never dropped, whatever their
// status: for a gRPC client a refusal is a 200.
func filter(e ending, m contract.Mode, drop uint32) *accesslogv3.AccessLogFilter {
	own := said(e, m)
	if drop == 0 || e == ended {
		return own
	}
	return both(own, notable(million-min(drop, million)))
}

func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

func anyOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: filters}}}
}

// flagged accepts requests for which Envoy has set one of some flags.
func flagged(flags ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags},
	}}
}

// said accepts the requests of an ending, by what the filter has recorded about them.
func said(e ending, m contract.Mode) *accesslogv3.AccessLogFilter {
	values := map[ending][]string{
		passed: {""},
		ended:  {string(contract.Refused), string(contract.Undecided)},
		issued: {string(contract.Issued)},
	}[e]
	return noted(namespaceOf(m), contract.MetaDecision, e == passed, values...)
}

// noted accepts requests for which a filter has recorded one of some values. If otherwise is
// set, it also accepts requests without any recorded value.
func noted(namespace, key string, otherwise bool, values ...string) *accesslogv3.AccessLogFilter {
	or := &matcherv3.OrMatcher{}
	for _, v := range values {
		or.ValueMatchers = append(or.ValueMatchers, &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: v}},
		}})
	}
	// Envoy does not accept a list of one alternative.
	value := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: or}}
	if len(values) == 1 {
		value = or.ValueMatchers[0]
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{MetadataFilter: &accesslogv3.MetadataFilter{
		Matcher: &matcherv3.MetadataMatcher{
			Filter: namespace,
			Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}},
			Value:  value,
		},
		MatchIfKeyNotFound: wrapperspb.Bool(otherwise),
	}}}
}

// notable accepts all requests that did not succeed, and a share of those that did.
func notable(share uint32) *accesslogv3.AccessLogFilter {
	return anyOf(
		status(accesslogv3.ComparisonFilter_LE, 199), status(accesslogv3.ComparisonFilter_GE, 300),
		failedGRPC(),
		&accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_RuntimeFilter{RuntimeFilter: &accesslogv3.RuntimeFilter{
			RuntimeKey:     "meshgate.access_log.share",
			PercentSampled: &typev3.FractionalPercent{Numerator: share, Denominator: typev3.FractionalPercent_MILLION},
		}}},
	)
}

// failedGRPC accepts calls that failed with HTTP status 200. It checks the content type,
// because for other requests Envoy's filter derives a failure from the HTTP status.
func failedGRPC() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{AndFilter: &accesslogv3.AndFilter{
		Filters: []*accesslogv3.AccessLogFilter{
			{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
				Name: "content-type", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
					MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "application/grpc"},
				}},
			}}}},
			{FilterSpecifier: &accesslogv3.AccessLogFilter_GrpcStatusFilter{GrpcStatusFilter: &accesslogv3.GrpcStatusFilter{
				Statuses: []accesslogv3.GrpcStatusFilter_Status{accesslogv3.GrpcStatusFilter_OK}, Exclude: true,
			}}},
		},
	}}}
}

func status(op accesslogv3.ComparisonFilter_Op, value uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{StatusCodeFilter: &accesslogv3.StatusCodeFilter{
		Comparison: &accesslogv3.ComparisonFilter{Op: op, Value: &corev3.RuntimeUInt32{DefaultValue: value, RuntimeKey: "meshgate.access_log.status"}},
	}}}
}

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
