// Package naming is how the host names of a mesh travel to the agent of a proxy: as the metadata of
// a cluster without endpoints, to which nothing leads. So the table is sent, confirmed, kept on
// disk and taken back like everything else that a proxy has. Envoy makes nothing of it.
package naming

import (
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Cluster is the name of the cluster. No service has it, because no tag value contains its mark.
const Cluster = "@names"

// metadata is the namespace of the table in the metadata of the cluster.
const metadata = "io.mesh.names"

// Table maps host names, in lower case and without a dot at the end, to addresses.
type Table map[string]netip.Addr

// Encode returns the cluster with a table.
func Encode(t Table) *clusterv3.Cluster {
	fields := make(map[string]*structpb.Value, len(t))
	for host, a := range t {
		fields[host] = structpb.NewStringValue(a.String())
	}
	return &clusterv3.Cluster{
		Name: Cluster, AltStatName: "mesh_names",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: Cluster},
		Metadata:             &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{metadata: {Fields: fields}}},
	}
}

// virtual are the addresses at which only proxies listen, and which nobody routes (RFC 1112
// section 4).
var virtual = netip.PrefixFrom(netip.AddrFrom4([4]byte{240}), 4)

// Decode returns the table of a cluster. It leaves out what is no address of 240.0.0.0/4: a
// control plane may say what a host name means inside the proxy, and send nobody elsewhere.
func Decode(cluster []byte) (Table, error) {
	var c clusterv3.Cluster
	if err := proto.Unmarshal(cluster, &c); err != nil {
		return nil, fmt.Errorf("decode the names of the mesh: %w", err)
	}
	fields := c.GetMetadata().GetFilterMetadata()[metadata].GetFields()
	t := make(Table, len(fields))
	for host, v := range fields {
		if a, err := netip.ParseAddr(v.GetStringValue()); err == nil && virtual.Contains(a) {
			t[host] = a
		}
	}
	return t, nil
}
