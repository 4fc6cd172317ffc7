package sidecar

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// claimed lists prefixes of headers that no caller may send to a workload: what gateways tell
// the OAuth server, and the client address, which only an Envoy at the edge may set. Some
// servers read "_" as "-".
//
// It is shorter than [contract.ReservedHeaders], which is what clients of gateways may not
// send. A gateway may be before an inbound, so what gateways write goes through: whose request
// it is (X-Consumer-*, X-Credential-*, X-Authenticated-*) and where it came from
// (X-Forwarded-*, X-Real-IP). A MeshTokenAuth switches the filter on, which removes the
// whole list there. The other headers of Envoy only tune the call of whoever sends them.
var claimed = []string{
	"x-meshgate-", "x_meshgate_", "x-meshgate_", "x_meshgate-",
	"x-envoy-external", "x_envoy_external", "x-envoy_external", "x_envoy-external",
}

// shield makes a connection manager use the path as the workload will read it, as gateways do.
// It also removes the claimed headers.
func shield(m *hcmv3.HttpConnectionManager) error {
	m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
	m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	var removals []*mutationv3.HeaderMutation
	for _, prefix := range claimed {
		removals = append(removals, removal(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}}))
	}
	return early(m, removals)
}

// early has a connection manager change headers before it chooses a route and writes its own.
func early(m *hcmv3.HttpConnectionManager, changes []*mutationv3.HeaderMutation) error {
	packed, err := plan.Pack(&earlyv3.HeaderMutation{Mutations: changes})
	if err != nil {
		return err
	}
	m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{{
		Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: packed,
	}}
	return nil
}

// saidByStrangers removes [contract.ReservedHeaders], also those that Envoy writes itself: it does
// so later. Headers with underscores, which some servers read as the same, do not come through.
func saidByStrangers() (removals []*mutationv3.HeaderMutation) {
	for _, r := range contract.ReservedHeaders {
		m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: r.Name}}
		if r.Family {
			m.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: r.Name}
		}
		removals = append(removals, removal(m))
	}
	return removals
}

func removal(of *matcherv3.StringMatcher) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
		RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: of},
	}}
}
