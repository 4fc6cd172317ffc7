package sidecar

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

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
	early := &earlyv3.HeaderMutation{}
	for _, prefix := range claimed {
		early.Mutations = append(early.Mutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
			RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix},
			}},
		}})
	}
	packed, err := plan.Pack(early)
	if err != nil {
		return err
	}
	m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{{
		Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: packed,
	}}
	return nil
}
