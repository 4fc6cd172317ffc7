package edge

import (
	"errors"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// hasNames reports whether some target is a DNS name, which must be resolved.
func hasNames(t *view.Targets) bool {
	for _, m := range listOf(t) {
		if host, _ := m.Spec.HostPort(); !isAddress(host) {
			return true
		}
	}
	return false
}

func listOf(t *view.Targets) []*view.Target {
	if t == nil {
		return nil
	}
	return t.List
}

// pooled returns a cluster of the targets of an upstream. If all are addresses, they come as
// an assignment with the name of the cluster. If there are names among them, Envoy resolves
// all targets, and a change of any target makes a new cluster.
func pooled(k clusterKey, connect time.Duration) (*clusterv3.Cluster, error) {
	kind := clusterv3.Cluster_EDS
	if k.named != nil {
		kind = clusterv3.Cluster_STRICT_DNS
	}
	c := cluster(kind, connect)
	// A removed target gets no new requests even if checks still report it as healthy.
	c.IgnoreHealthOnHostRemoval = true
	c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: durationpb.New(0)}
	if k.named != nil {
		c.LoadAssignment = members("unnamed", k.named)
		if k.callsByName() {
			callByName(k, c.LoadAssignment)
		}
		return c, nil
	}
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: plan.ADS()}
	return c, nil
}

// members lists targets in the order of their addresses. Targets of weight 0 get no requests
// and are omitted.
func members(cluster string, t *view.Targets) *endpointv3.ClusterLoadAssignment {
	locality := &endpointv3.LocalityLbEndpoints{}
	for _, m := range listOf(t) {
		if m.Spec.Weight < 1 {
			continue
		}
		host, port := m.Spec.HostPort()
		e := lbEndpoint(host, uint32(port))                              //nolint:gosec // checked when it was written
		e.LoadBalancingWeight = wrapperspb.UInt32(uint32(m.Spec.Weight)) //nolint:gosec // positive
		locality.LbEndpoints = append(locality.LbEndpoints, e)
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: cluster, Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
}

// assignmentKey is everything that an assignment reads.
type assignmentKey struct {
	cluster string
	targets *view.Targets
}

// assignment returns the assignment of a cluster. It exists even without targets, because the
// cluster waits for it. It fails if a target is a name; then a kept cluster also keeps its
// earlier targets.
func assignment(k assignmentKey) (*resource.Resource, error) {
	if hasNames(k.targets) {
		return nil, errors.New("an assignment takes addresses only")
	}
	return plan.Freeze(resource.Endpoint, k.cluster, members(k.cluster, k.targets))
}
