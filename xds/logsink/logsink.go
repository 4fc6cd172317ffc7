// Package logsink is how the agent of a proxy is told where lines of its access logs may go.
//
// Envoy sends each line to its agent, in OTLP and with the name of a sink; only the agent opens
// files and connections. The control plane describes each sink in the metadata of a cluster
// without endpoints, to which nothing leads. So a sink is sent, kept on disk and taken back like
// everything else that a proxy has, and the agent knows no sinks but those. Envoy makes nothing
// of such a cluster.
package logsink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// Cluster is the cluster of the bootstrap that leads to the agent's receiver.
	Cluster = "@access_logs"
	// Attribute is the attribute of the resource of a line (OTLP, ResourceLogs.resource) with
	// the name of its sink.
	Attribute = "mesh.sink"
	// LogName is the name of all these logs.
	LogName = "mesh.access"
	// AddressAlone stands in a line, alone in a list, where the agent puts the address of its
	// proxy.
	AddressAlone = "address"
	// AddressWithPort is the same for host:port, with port 0, because each connection has another
	// one.
	AddressWithPort = "address:port"
)

// Names of clusters, and of fields of their metadata. No service has these names, because no tag
// value contains the mark.
const (
	prefix       = "@log:"
	self         = "@log-source"
	metadata     = "io.mesh.log"
	fieldFile    = "file"
	fieldTCP     = "tcp"
	fieldAddress = "address"
)

// Sink is where lines go: one of its fields is set. It is comparable.
type Sink struct {
	// File is a path on the machine of the proxy. The agent decides whether it may be written.
	File string
	// TCP is host:port.
	TCP string
}

// String names the sink to operators.
func (s Sink) String() string {
	if s.File != "" {
		return "file " + s.File
	}
	return "tcp " + s.TCP
}

// Name returns the name of the sink, which is that of its cluster. Equal sinks have one name.
func (s Sink) Name() string {
	sum := sha256.Sum256([]byte(s.String()))
	return prefix + hex.EncodeToString(sum[:8])
}

// Is reports whether a cluster describes a sink.
func Is(cluster string) bool { return strings.HasPrefix(cluster, prefix) }

// Describe returns the cluster that tells an agent of the sink.
func (s Sink) Describe() *clusterv3.Cluster {
	if s.File != "" {
		return told(s.Name(), fieldFile, s.File)
	}
	return told(s.Name(), fieldTCP, s.TCP)
}

// Source returns the cluster that tells an agent the address of its proxy, which lines may show.
func Source(address string) *clusterv3.Cluster { return told(self, fieldAddress, address) }

func told(name, field, value string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, AltStatName: strings.ReplaceAll(strings.TrimPrefix(name, "@"), ":", "_"),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: name},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			metadata: {Fields: map[string]*structpb.Value{field: structpb.NewStringValue(value)}},
		}},
	}
}

// Table is what the clusters of a proxy say about its access logs.
type Table struct {
	// Address is that of the proxy; it is empty if it was not told.
	Address string
	// Sinks are by name.
	Sinks map[string]Sink
}

// Concerns reports whether a cluster says anything about access logs.
func Concerns(cluster string) bool { return cluster == self || Is(cluster) }

// Add reads a cluster of which [Concerns] is true. A sink that has another name than its own is
// an error, so that a line never reaches a sink that its logger does not name.
func (t *Table) Add(cluster []byte) error {
	var c clusterv3.Cluster
	if err := proto.Unmarshal(cluster, &c); err != nil {
		return fmt.Errorf("decode a sink of access logs: %w", err)
	}
	fields := c.GetMetadata().GetFilterMetadata()[metadata].GetFields()
	if c.GetName() == self {
		t.Address = fields[fieldAddress].GetStringValue()
		return nil
	}
	s := Sink{File: fields[fieldFile].GetStringValue(), TCP: fields[fieldTCP].GetStringValue()}
	if s.Name() != c.GetName() || (s.File == "") == (s.TCP == "") {
		return fmt.Errorf("the cluster %s does not describe the sink of that name", c.GetName())
	}
	if t.Sinks == nil {
		t.Sinks = map[string]Sink{}
	}
	t.Sinks[c.GetName()] = s
	return nil
}
