// Package bootstrap writes the configuration with which an Envoy starts: who it is, where its
// admin interface listens, how it reaches the server of its configuration, and the limits that
// protect it from overload. The server is the agent's relay or, without an agent, the control
// plane. Everything else arrives on that stream.
package bootstrap

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/xds/reserved"
)

// ADSCluster is the static cluster that leads to the relay or the control plane. No tag value
// can be its name, so no service can have it; otherwise requests for that service would go to
// the relay.
const ADSCluster = reserved.ADSCluster

// adsStat is the name of that cluster in statistics.
const adsStat = "ads_cluster"

// MetadataFilter is the field of a node's metadata that says whether the proxy has the token
// filter. It is [FilterNone] if the proxy has none. Any other value, or no value, means that
// it has the filter.
const (
	MetadataFilter = "dataplane.filter"
	FilterNone     = "none"
)

// These are the defaults of [Config].
const (
	DefaultMaxHeap        = 2 << 30
	DefaultMaxConnections = 50_000
)

// fetchTimeout is the same as that of every other resource.
const fetchTimeout = 15 * time.Second

// maxSocketPath is the maximum length of the path of a Unix socket on Linux, without its final
// zero.
const maxSocketPath = 107

// Config describes one proxy.
type Config struct {
	// NodeID is cp/<control plane>/<instance> or <mesh>.<name>.
	NodeID string
	// Cluster is the service or kind of the node.
	Cluster string
	// Metadata is sent to the control plane. Its values are those of JSON.
	Metadata map[string]any
	// Relay is the path of the Unix socket that serves delta ADS.
	Relay string
	// Password is what the relay demands of a stream. It stands in the bootstrap in clear. It is
	// empty where the control plane writes a bootstrap: only the agent knows it.
	Password string
	// Direct is how an Envoy without an agent reaches the control plane. It is set instead of
	// Relay.
	Direct *Direct
	// AdminSocket is the path of a Unix socket for the admin interface, created with mode
	// 0600. It is used unless AdminPort is set.
	AdminSocket string
	// AdminPort is a port on 127.0.0.1 for the admin interface.
	AdminPort uint32
	// Authz is the path of the Unix socket of the authorization service that Envoy asks about
	// requests. Empty means that there is none.
	Authz string
	// Logs is the path of the Unix socket of the agent's receiver of access logs. Empty means that
	// there is none.
	Logs string
	// Metrics is the path of the Unix socket of the agent's page of metrics. Empty means that there
	// is none.
	Metrics string
	// MaxHeap is the heap size in bytes that the overload manager enforces; 0 means
	// [DefaultMaxHeap].
	MaxHeap uint64
	// MaxConnections limits downstream connections; 0 means [DefaultMaxConnections].
	MaxConnections int64
}

// Render returns the bootstrap as YAML; equal configurations yield equal bytes.
func Render(c Config) ([]byte, error) {
	b, err := build(c)
	if err != nil {
		return nil, err
	}
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("validate bootstrap: %w", err)
	}
	// The JSON form has no fixed spacing. Converting it to YAML removes the differences.
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode bootstrap: %w", err)
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return nil, fmt.Errorf("convert bootstrap: %w", err)
	}
	return out, nil
}

func (c Config) check() error {
	switch {
	case c.NodeID == "":
		return errors.New("the node id is missing")
	case (c.Relay == "") == (c.Direct == nil):
		return errors.New("one of the relay's socket and the control plane's address is needed")
	case c.Password != "" && c.Relay == "":
		return errors.New("a password is for the relay")
	case max(len(c.Relay), len(c.AdminSocket), len(c.Authz), len(c.Logs), len(c.Metrics)) > maxSocketPath:
		return fmt.Errorf("the path of a socket is longer than %d bytes", maxSocketPath)
	case c.AdminSocket == "" && c.AdminPort == 0:
		return errors.New("the admin interface has neither socket nor port")
	case c.AdminPort > math.MaxUint16:
		return fmt.Errorf("admin port %d is none", c.AdminPort)
	case c.Direct != nil:
		return c.Direct.check()
	}
	return nil
}

func build(c Config) (*bootstrapv3.Bootstrap, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	meta, err := structpb.NewStruct(c.Metadata)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	ads, err := c.adsCluster()
	if err != nil {
		return nil, err
	}
	clusters := []*clusterv3.Cluster{ads}
	if c.Authz != "" {
		authz, err := authzCluster(c.Authz)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, authz)
	}
	if c.Logs != "" {
		logs, err := logCluster(c.Logs)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, logs)
	}
	if c.Metrics != "" {
		metrics, err := metricsCluster(c.Metrics)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, metrics)
	}
	overload, err := overloadManager(c)
	if err != nil {
		return nil, err
	}
	runtime, err := runtimeLayer()
	if err != nil {
		return nil, err
	}
	return &bootstrapv3.Bootstrap{
		Node:             &corev3.Node{Id: c.NodeID, Cluster: c.Cluster, Metadata: meta},
		Admin:            admin(c),
		DynamicResources: dynamic(c),
		StaticResources:  &bootstrapv3.Bootstrap_StaticResources{Clusters: clusters},
		OverloadManager:  overload,
		LayeredRuntime:   runtime,
	}, nil
}

func admin(c Config) *bootstrapv3.Admin {
	if c.AdminPort != 0 {
		return &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}).String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: c.AdminPort},
		}}}}
	}
	return &bootstrapv3.Admin{Address: pipe(c.AdminSocket, 0o600)}
}

func pipe(path string, mode uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path, Mode: mode}}}
}

// dynamic requests everything on one delta ADS stream. A lost stream is retried within two
// seconds, with jitter; Envoy's default grows to half a minute.
func dynamic(c Config) *bootstrapv3.Bootstrap_DynamicResources {
	source := func() *corev3.ConfigSource {
		return &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(fetchTimeout),
			ResourceApiVersion:    corev3.ApiVersion_V3,
		}
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		CdsConfig: source(), LdsConfig: source(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_DELTA_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{InitialMetadata: c.credentials(), TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: ADSCluster,
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(100 * time.Millisecond), MaxInterval: durationpb.New(2 * time.Second),
					}},
				},
			}}},
		},
	}
}

// overloadManager releases memory at 95 % of the heap and refuses requests at 98 %. It also
// refuses connections beyond a fixed number.
func overloadManager(c Config) (*overloadv3.OverloadManager, error) {
	if c.MaxHeap == 0 {
		c.MaxHeap = DefaultMaxHeap
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultMaxConnections
	}
	const heapMonitor = "envoy.resource_monitors.fixed_heap"
	heap, err := pack(&heapv3.FixedHeapConfig{MaxHeapSizeBytes: c.MaxHeap})
	if err != nil {
		return nil, err
	}
	connections, err := pack(&connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: c.MaxConnections})
	if err != nil {
		return nil, err
	}
	at := func(action string, threshold float64) *overloadv3.OverloadAction {
		return &overloadv3.OverloadAction{Name: action, Triggers: []*overloadv3.Trigger{{
			Name:         heapMonitor,
			TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: threshold}},
		}}}
	}
	monitor := func(name string, config *anypb.Any) *overloadv3.ResourceMonitor {
		return &overloadv3.ResourceMonitor{Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: config}}
	}
	return &overloadv3.OverloadManager{
		RefreshInterval: durationpb.New(250 * time.Millisecond),
		ResourceMonitors: []*overloadv3.ResourceMonitor{
			monitor(heapMonitor, heap),
			monitor("envoy.resource_monitors.global_downstream_max_connections", connections),
		},
		Actions: []*overloadv3.OverloadAction{
			at("envoy.overload_actions.shrink_heap", 0.95),
			at("envoy.overload_actions.stop_accepting_requests", 0.98),
		},
	}, nil
}

// runtimeLayer permits long regular expressions in routes, with a warning.
func runtimeLayer() (*bootstrapv3.LayeredRuntime, error) {
	static, err := structpb.NewStruct(map[string]any{
		"re2.max_program_size.error_level": float64(math.MaxUint32),
		"re2.max_program_size.warn_level":  1000.0,
	})
	if err != nil {
		return nil, fmt.Errorf("encode runtime: %w", err)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: static},
	}}}, nil
}

func pack(m proto.Message) (*anypb.Any, error) {
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("pack %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return a, nil
}
