// Package scraping is how the agent of a proxy is told what the page of its metrics consists of.
//
// A listener of Envoy leads scrapes to the agent of the proxy, by a cluster of the bootstrap. What
// the agent shows there travels in the metadata of a cluster without endpoints, to which nothing
// leads. So it is sent, confirmed, kept on disk and taken back like everything else that a proxy
// has. Envoy makes nothing of that cluster.
package scraping

import (
	"encoding/json"
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// Listener is the name of the listener at which a proxy is scraped, and of its route table.
	Listener = "mesh:metrics:prometheus"
	// Cluster is the cluster of the bootstrap that leads to the agent's page. Only the route table
	// of that name may lead there.
	Cluster = "@mesh:metrics:hijacker"
	// Told is the cluster that tells the agent what to show. No service has one of these names,
	// because no tag value contains their mark.
	Told = "@metrics"
)

const (
	metadata = "io.mesh.metrics"
	field    = "settings"
)

// MaxApplications is how many applications an agent asks.
const MaxApplications = 32

// Settings are what a page consists of.
type Settings struct {
	// Filter is a regular expression for the names of Envoy's statistics; empty means all.
	Filter string `json:"filter,omitempty"`
	// UsedOnly leaves out statistics that Envoy has never changed.
	UsedOnly bool `json:"usedOnly,omitempty"`
	// Applications have distinct names.
	Applications []Application `json:"applications,omitempty"`
}

// Application is a workload whose metrics are on the page. The agent decides whether it may be
// asked.
type Application struct {
	Name string `json:"name"`
	// At is an IP address and a port.
	At netip.AddrPort `json:"at"`
	// Path begins with a slash and may have a query.
	Path string `json:"path"`
}

// Describe returns the cluster that tells an agent the settings.
func (s *Settings) Describe() (*clusterv3.Cluster, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode what a page of metrics consists of: %w", err)
	}
	return &clusterv3.Cluster{
		Name: Told, AltStatName: "mesh_metrics",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: Told},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			metadata: {Fields: map[string]*structpb.Value{field: structpb.NewStringValue(string(text))}},
		}},
	}, nil
}

// Read returns the settings that a cluster tells. More applications than [MaxApplications], or two
// of one name, are an error.
func Read(cluster []byte) (*Settings, error) {
	var c clusterv3.Cluster
	if err := proto.Unmarshal(cluster, &c); err != nil {
		return nil, fmt.Errorf("decode what a page of metrics consists of: %w", err)
	}
	s := new(Settings)
	if err := json.Unmarshal([]byte(c.GetMetadata().GetFilterMetadata()[metadata].GetFields()[field].GetStringValue()), s); err != nil {
		return nil, fmt.Errorf("decode what a page of metrics consists of: %w", err)
	}
	if n := len(s.Applications); n > MaxApplications {
		return nil, fmt.Errorf("a page of metrics is to show %d applications, and %d are possible", n, MaxApplications)
	}
	names := map[string]bool{}
	for _, a := range s.Applications {
		if names[a.Name] || !a.At.IsValid() {
			return nil, fmt.Errorf("a page of metrics is to show the application %q twice, or without an address", a.Name)
		}
		names[a.Name] = true
	}
	return s, nil
}
