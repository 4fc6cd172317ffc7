// Package probing is how the agent of a proxy is told which workloads it checks, and how it tells
// what it has found.
//
// The probes travel in the metadata of a cluster without endpoints, to which nothing leads. So they
// are sent, confirmed, kept on disk and taken back like everything else that a proxy has. With each
// probe the control plane says what it holds of the inbound. The agent reports where it finds
// something else, until it is told that the control plane holds the same: whatever is lost on the
// way, or written in between, is mended by that.
package probing

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Told is the cluster that tells the agent its probes. No service has this name, because no tag
// value contains its mark.
const Told = "@probes"

const (
	metadata = "io.mesh.probes"
	field    = "probes"
)

// Max is how many probes an agent runs.
const Max = 100

// Inbound names an inbound of a proxy. Address is empty for the address of the proxy.
type Inbound struct {
	Address string `json:"address,omitempty"`
	Port    uint16 `json:"port"`
}

// Probe is how the workload of an inbound is checked. The agent decides whether it may be.
type Probe struct {
	Inbound
	// Listener is the listener of the inbound. While the proxy does not have it, nobody reaches the
	// workload.
	Listener string `json:"listener,omitempty"`
	// At is where the workload is, as the proxy calls it. From, if it is valid, is the address
	// from which the proxy calls it.
	At   netip.AddrPort `json:"at"`
	From netip.Addr     `json:"from,omitzero"`
	// Interval is from the end of a check to the next one, Timeout how long one takes at most.
	Interval time.Duration `json:"interval"`
	Timeout  time.Duration `json:"timeout"`
	// Unhealthy and Healthy are how many checks one after the other must fail, or succeed, until
	// something is known.
	Unhealthy uint32 `json:"unhealthy"`
	Healthy   uint32 `json:"healthy"`
	// Ready is what the control plane holds of the inbound.
	Ready bool `json:"ready"`
}

// Describe returns the cluster that tells an agent its probes.
func Describe(probes []Probe) (*clusterv3.Cluster, error) {
	text, err := json.Marshal(probes)
	if err != nil {
		return nil, fmt.Errorf("encode probes: %w", err)
	}
	return &clusterv3.Cluster{
		Name: Told, AltStatName: "mesh_probes",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: Told},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			metadata: {Fields: map[string]*structpb.Value{field: structpb.NewStringValue(string(text))}},
		}},
	}, nil
}

// minInterval is the least time between two checks, and minTimeout the least for one.
const (
	minInterval = 10 * time.Millisecond
	minTimeout  = time.Nanosecond
)

// Read returns the probes that a cluster tells. More than [Max], two of one inbound, or one that
// would check all the time, are an error.
func Read(cluster []byte) ([]Probe, error) {
	var c clusterv3.Cluster
	if err := proto.Unmarshal(cluster, &c); err != nil {
		return nil, fmt.Errorf("decode probes: %w", err)
	}
	var probes []Probe
	if err := json.Unmarshal([]byte(c.GetMetadata().GetFilterMetadata()[metadata].GetFields()[field].GetStringValue()), &probes); err != nil {
		return nil, fmt.Errorf("decode probes: %w", err)
	}
	if n := len(probes); n > Max {
		return nil, fmt.Errorf("%d inbounds are to be probed, and %d are possible", n, Max)
	}
	seen := map[Inbound]bool{}
	for _, p := range probes {
		switch {
		case seen[p.Inbound]:
			return nil, fmt.Errorf("the inbound at port %d is to be probed twice", p.Port)
		case !p.At.IsValid(), p.Interval < minInterval, p.Timeout < minTimeout, p.Unhealthy == 0, p.Healthy == 0:
			return nil, fmt.Errorf("the probe of the inbound at port %d has no address, no time or no threshold", p.Port)
		}
		seen[p.Inbound] = true
	}
	return probes, nil
}

// Path is where an agent reports: a POST of [Report] to the data-plane server, with the token of the
// node.
const Path = "/dataplanes/readiness"

// MaxReport bounds the body of a report in bytes.
const MaxReport = 16 << 10

// Report is what an agent has found.
type Report struct {
	// Instance distinguishes the agent from others of its node.
	Instance string    `json:"instance,omitempty"`
	Inbounds []Finding `json:"inbounds"`
}

// Finding is whether the workload of an inbound is there.
type Finding struct {
	Inbound
	Ready bool `json:"ready"`
}
